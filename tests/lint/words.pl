# See words.sh. The list, then sources, are the arguments; prints what is refused, and for `words`
# the comment share and the asserts of each room.
use strict;
use warnings;

my ($list, @files) = @ARGV;
my $share_least = 8; # in percent, of a room of src
my (%is_name, @phrases);
open my $words, '<', $list or die "$list: $!\n";
while (<$words>) {
    next if /^#/ || /^\s*$/;
    my ($kind, $text) = /^(name|phrase) (.+)$/ or die "$list:$.: not name or phrase\n";
    if    ($kind eq 'name')   { $is_name{$text} = 1 }
    else                      { push @phrases, qr/\b(?:$text)\b/is }
}
close $words;

my (%lines, %comment_lines, %asserts, %functions); # functions: name to file to line
for my $file (@files) {
    my ($room) = $file =~ m{^(?:src/)?([a-z]+)/} or next;
    open my $in, '<', $file or die "$file: $!\n";
    local $/;
    my $text = <$in>;
    close $in;

    # The file in parts: comments, strings and what is between them. Strings are data, not names.
    my ($line, %has_comment) = (1);
    while ($text =~ m{\G(?:(/\*.*?\*/|//[^\n]*)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|([^/"']+|.))}gs) {
        my ($comment, $string, $code) = ($1, $2, $3);
        my $part = $comment // $string // $code;
        my $count = $part =~ tr/\n//;
        if (defined $comment) {
            $has_comment{$_} = 1 for $line .. $line + $count;
            (my $plain = $comment) =~ s{\n\s*\*}{\n }g;
            for my $phrase (@phrases) {
                while ($plain =~ /$phrase/g) {
                    my ($found, $at) = ($&, $line + (substr($plain, 0, $-[0]) =~ tr/\n//));
                    $found =~ s/\s+/ /g;
                    print "$file:$at: a comment says \"$found\"\n";
                }
            }
        } elsif (defined $code) {
            $asserts{$room} += () = $code =~ /\bASSERT\w*\s*\(/g;
            while ($code =~ /\b([A-Za-z_]\w*)\b/g) {
                my ($name, $at) = ($1, $line + (substr($code, 0, $-[0]) =~ tr/\n//));
                my ($bad) = grep { $is_name{$_} } split /_/, lc($name) =~ s{in_place}{}r; # a term of the field
                print "$file:$at: the name $name: \"$bad\" is not used\n" if defined $bad;
            }
        }
        $line += $count;
    }
    next if $file !~ /\.c$/;
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
    printf "src/$room: %.1f %% of the lines of its .c files are comments, at least $share_least %% are wanted\n",
        $share if $room ne 'bench' && $share < $share_least;
}
# A name that several files define does not say which function is meant: a backtrace shows no file.
# Callbacks and steps of an op are named after their event, in every file.
for my $name (sort grep { !/^(?:on_|step_)|^main$/ } keys %functions) {
    my @defined_in = sort keys %{$functions{$name}};
    next if @defined_in < ($name =~ /_/ ? 3 : 2);
    printf "%s:%d: the function %s is defined in %d files: name what it does\n", $_,
        $functions{$name}{$_}, $name, scalar @defined_in for @defined_in;
}
