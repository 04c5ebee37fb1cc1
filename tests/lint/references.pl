# For the files named on stdin: names in their comments that do not exist (references.sh).
use strict;
use warnings;

my $tops = 'src|tests|sql|bench|contrib|deps';
my (%names, %rooms, %documents, @found);
chomp(my @files = <STDIN>);
for my $path (@files) {
    $names{$1} = 1 if $path =~ m|([^/]+)$|;
    $rooms{$1} = 1 if $path =~ m|^src/(\w+)/|;
}

sub slurp {
    my ($path) = @_;
    open(my $in, '<', $path) or die "$path: $!\n";
    local $/;
    return scalar(<$in>) // '';
}

# `*` and <...> stand for anything.
sub is_there {
    my ($path) = @_;
    $path =~ s/<[^>]*>|\{[^}]*\}/*/g;
    $path =~ s|/+$||;
    return -e $path if $path !~ /\*/;
    my @hits = glob($path);
    return @hits > 0;
}

# A heading, or the first cell of a row of a table.
sub has_section {
    my ($path, $section) = @_;
    $documents{$path} = slurp($path) if !exists $documents{$path};
    return $documents{$path} =~ /^(?:#+ .*\Q$section\E|\|[^|]*\Q$section\E)/m;
}

# [text, line]: comments, with their lines joined; a document is one text, without its blocks.
sub prose {
    my ($path) = @_;
    my $text = slurp($path);
    my @out;
    if ($path =~ /\.md$/) {
        $text =~ s/^```.*?^```//msg;
        return ([$text, 0]);
    }
    my $is_c = $path =~ /\.[ch]$/;
    my $mark = quotemeta($path =~ /\.mjs$/ ? '//' : $path =~ /\.sql$/ ? '--' : '#');
    my $comment = $is_c ? qr{/\*(.*?)\*/}s : qr{((?:^[ \t]*$mark[^\n]*\n)+)}m;
    while ($text =~ /$comment/g) {
        my ($one, $line) = ($1, 1 + (substr($text, 0, $-[1]) =~ tr/\n//));
        $one =~ s/\n[ \t]*\*[ \t]?/ /g if $is_c;
        $one =~ s/\n?^[ \t]*$mark[ \t]?/ /mg if !$is_c;
        push @out, [$one, $line];
    }
    return @out;
}

sub check {
    my ($dir, $where, $text) = @_;
    while ($text =~ m|([\w./-]*\w\.md)\b((?:(?:,\| and)?\s"[^"]+")*)|g) {
        my ($name, $after) = ($1, $2);
        my ($document) = grep { -e $_ } $name, "$dir/$name";
        if (!$document) {
            push @found, "$where: $name does not exist";
            next;
        }
        while ($after =~ /"([^"]+)"/g) {
            my $section = $1 =~ s/\s+/ /gr;
            push @found, "$where: $document has no \"$section\"" if !has_section($document, $section);
        }
    }
    while ($text =~ m{(?<![\w./:*-])((?:$tops)/[\w./*<>\{\}-]*[\w/*>\}])}g) {
        my $name = $1;
        next if $name =~ m|/node_modules|;
        push @found, "$where: $name does not exist" if !is_there($name) && !is_there("$dir/$name");
    }
    while ($text =~ m{(?<![@\w./:*<>-])(?:(\w+)/)?([\w-]+\.(?:c|h|mjs))\b(?![\w/*])}g) {
        my ($room, $name) = ($1, $2);
        next if $room && !$rooms{$room};
        next if !$room && ($names{$name} || $name =~ /^(?:uv|llhttp|libpq-fe|yyjson|pcre2|yaml|libstemmer|zlib|node)\.h$/);
        next if $room && grep { -e "$_/$room/$name" } 'src', 'tests/unit', $dir;
        push @found, "$where: " . ($room ? "$room/" : '') . "$name does not exist";
    }
}

for my $path (grep { /\.(?:c|h|mjs|sh|sql|md|awk|pl)$|^Makefile$/ } @files) {
    my ($dir) = $path =~ m|^(.*)/|;
    check($dir // '.', $_->[1] ? "$path:$_->[1]" : $path, $_->[0]) for prose($path);
}
print map { "$_\n" } @found;
