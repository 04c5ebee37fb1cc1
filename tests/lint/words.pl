# See words.sh. Arguments: the list, then files. Prints the refused words and, for the check
# `words`, each room's share of comments and its asserts.
use strict;
use warnings;

my ($list, @files) = @ARGV;
my $share_least = 8; # in percent, for a room of src
my (%is_name, @phrases);
open my $words, '<', $list or die "$list: $!\n";
while (<$words>) {
    next if /^#/ || /^\s*$/;
    if (/^name (\w+)$/) { $is_name{$1} = 1; next }
    my ($text, $fault) = /^phrase (.+?)  +# (.+)$/ or die "$list:$.: not name or phrase\n";
    $text =~ s/ /\\s/g; # words may be in two lines
    my $phrase = qr/(?<!\w)(?:$text)(?!\w)/is;
    $fault =~ $phrase or die "$list:$.: the phrase does not match its example\n";
    push @phrases, $phrase;
}
close $words;

# The class of a file's text; C sources outside of tests have two, and names.
sub class_of
{
    my ($file) = @_;
    return '' if $file =~ m{^tests/lint/words\.|^tests/(?:fuzz/corpus|e2e/replay/\w+|operators/support)/.*(?<!\.mjs)$|^sql/\d|\.patch$};
    return 'document' if $file =~ /\.md$/;
    return 'test' if $file =~ m{^tests/.*\.(?:c|h|mjs|ts|sh|pl)$};
    return 'page' if $file =~ m{^src/web/.*\.(?:html|js)$};
    return 'data' if $file =~ m{^(?:src|contrib)/.*\.json$};
    return 'code' if $file =~ m{^(?:src|bench)/.*\.[ch]$};
    return 'script' if $file =~ m{(?:\.(?:sh|mjs|ts|yml|conf|cfg|py|sql|service|socket)|Makefile|Caddyfile|Containerfile|/ROOMS)$};
    return '';
}

# Prints the refused words of the text, which begins in line $at, for its class. A line with "words:
# ok" is an exception, which readers of the line can see.
sub check
{
    my ($file, $at, $class, $text, $source) = @_;
    $text =~ s{[ \t]*\n[ \t]*(?:\*|//|#|--)?[ \t]*}{\n}g;
    $text =~ s{^(?:/\*+|//|#|["'`])[ \t]*}{};
    for my $phrase (@phrases) {
        while ($text =~ /$phrase/g) {
            my ($found, $line) = ($&, $at + (substr($text, 0, $-[0]) =~ tr/\n//));
            next if $source->[$line - 1] =~ /words: ok/;
            $found =~ s/\s+/ /g;
            print "$file:$line: a $class says \"$found\"\n";
        }
    }
}

# Replaces code and markup that is not for people with blanks on the same number of lines.
sub blank { return $_[0] =~ s/[^\n]/ /gr }

my (%lines, %comment_lines, %asserts, %functions); # functions: name to file to line
for my $file (@files) {
    my $class = class_of($file) or next;
    open my $in, '<', $file or die "$file: $!\n";
    local $/;
    my $text = <$in>;
    close $in;
    my @source = split /\n/, $text, -1;
    if ($class eq 'document') {
        $text =~ s/^```.*?^```/blank($&)/gmse;
        $text =~ s/`[^`\n]*`|\*\w[^*\n]*\*/"x" x length($&)/ge; # code, and words that are quoted
    } elsif ($class eq 'page') {
        $text =~ s/\$\{.*?\}/blank($&)/gse;
    } elsif ($class eq 'data') {
        $text =~ s/"tags":\s*\[.*?\]/blank($&)/gse; # words that people type into a search
    }
    if ($file !~ /\.(?:[ch]|mjs|ts|json)$/) {
        check($file, 1, $class, $text, \@source);
        next;
    }

    # The file in parts: comments, strings and the code between them. C strings are data, not names.
    # A string of several lines is one text.
    my ($room) = $file =~ m{^(?:src/)?([a-z]+)/};
    my ($line, %has_comment) = (1);
    my $string_of = $file =~ /\.(?:mjs|ts)$/ ? qr/"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`/s
        : qr/"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*|'(?:\\.|[^'\\\n])*'/s;
    while ($text =~ m{\G(?:(/\*.*?\*/|//[^\n]*)|($string_of)|([^/"'`]+|.))}gs) {
        my ($comment, $string, $code) = ($1, $2, $3);
        my $part = $comment // $string // $code;
        my $count = $part =~ tr/\n//;
        if (defined $comment) {
            $has_comment{$_} = 1 for $line .. $line + $count;
            check($file, $line, $class eq 'code' ? 'comment' : $class, $comment, \@source);
        } elsif (defined $string) {
            (my $plain = $string) =~ s/"(\s*)"/$1/g;
            check($file, $line, $class eq 'code' ? 'message' : $class, $plain, \@source)
                if $plain =~ /[a-z] [a-z(]/ && $plain !~ /\b(?:SELECT|INSERT|UPDATE|DELETE|FROM|WHERE)\b/;
        } elsif ($class eq 'code') {
            $asserts{$room} += () = $code =~ /\bASSERT\w*\s*\(/g;
            while ($code =~ /\b([A-Za-z_]\w*)\b/g) {
                my ($name, $at) = ($1, $line + (substr($code, 0, $-[0]) =~ tr/\n//));
                my ($bad) = grep { $is_name{$_} } split /_/, lc($name) =~ s{in_place}{}r; # a term of the field
                print "$file:$at: the name $name: \"$bad\" is not used\n" if defined $bad;
            }
        }
        $line += $count;
    }
    next if $class ne 'code' || $file !~ /\.c$/;
    # A definition begins in the first column and has its brace in a line of its own.
    while ($file =~ m{^src/} && $text =~ /^[a-zA-Z_][\w ]*[ *](\w+)\([^;{}]*\)\n\{/mg) {
        my ($name, $at) = ($1, 1 + (substr($text, 0, $-[1]) =~ tr/\n//));
        $functions{$name}{$file} //= $at;
    }
    $lines{$room} += $line - 1;
    $comment_lines{$room} += keys %has_comment;
}
for my $room (sort keys %lines) {
    my $share = 100 * $comment_lines{$room} / $lines{$room};
    printf "# room %-8s %4.1f %% comment lines, %4d asserts, %5d lines\n", $room,
        $share, $asserts{$room} // 0, $lines{$room};
    printf "src/$room: %.1f %% of the lines of its .c files are comments, at least $share_least %% are required\n",
        $share if $room ne 'bench' && $share < $share_least;
}
# If several files define the same name, it does not say which function is meant: a backtrace shows
# no file. Callbacks and steps of an op have the name of their event, in every file.
for my $name (sort grep { !/^(?:on_|step_)|^main$/ } keys %functions) {
    my @defined_in = sort keys %{$functions{$name}};
    next if @defined_in < ($name =~ /_/ ? 3 : 2);
    printf "%s:%d: the function %s is defined in %d files: name what it does\n", $_,
        $functions{$name}{$_}, $name, scalar @defined_in for @defined_in;
}
