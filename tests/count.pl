# Counts code lines, which are neither blank nor comment: perl tests/count.pl ROOT FILE... Prints a
# line for each room, with its C apart from its data (pages, scripts, styles, fixtures), and the
# sum.
use strict;
use warnings;

# Removes comments and keeps strings. A quote inside a comment, or a slash inside a string, has no
# meaning.
my $string = qr/"(?:[^"\\]|\\.)*"|'(?:[^'\\\n]|\\.)*'/s;
my %comment = (
    c => qr{/\*.*?\*/|//(?:[^\n\\]|\\.)*}s,
    css => qr{/\*.*?\*/}s,
    html => qr{<!--.*?-->}s,
    mjs => qr{^[ \t]*(?:/\*.*?\*/|//[^\n]*)}sm,
    sh => qr{^[ \t]*\#[^\n]*}m,
    sql => qr{--[^\n]*|/\*.*?\*/}s,
);
$comment{h} = $comment{c};
$comment{svg} = $comment{html};
$comment{js} = $comment{mjs};
$comment{ROOMS} = $comment{sh};
$comment{txt} = $comment{pl} = $comment{py} = $comment{sh};
my %has_strings = map { $_ => 1 } qw(c h css sql);

# $1: the file's kind, $2: its text.
sub code_lines
{
    my ($kind, $text) = @_;
    my $found = $comment{$kind};
    if ($found && $has_strings{$kind}) {
        $text =~ s/($string)|$found/$1 \/\/ ""/ge;
    } elsif ($found) {
        $text =~ s/$found//g;
    }
    return scalar grep { /\S/ } split /\n/, $text;
}

# src/<room>, bench/<part>, sql. The contract is counted apart. Documents and generated files do not
# count.
sub room_of
{
    my ($path) = @_;
    return undef if $path =~ /\.md$|package-lock\.json$/;
    return "openapi.json" if $path eq "src/api/openapi.json";
    return $1 if $path =~ m{^src/([^/]+)/};
    return $1 if $path =~ m{^(bench/[^/]+)/};
    return $path =~ m{^sql/} ? "sql" : "src";
}

my $root = shift;
my (%code, %data);
for my $path (@ARGV) {
    my $room = room_of($path) // next;
    my $kind = $path =~ /([^.\/]+)$/ ? $1 : "";
    next if -B "$root/$path" && -s _;
    open my $in, "<", "$root/$path" or die "$path: $!\n";
    local $/;
    my $lines = code_lines($kind, <$in> // "");
    ($kind =~ /^[ch]$/ ? \%code : \%data)->{$room} += $lines;
}

my ($code_sum, $data_sum) = (0, 0);
my $apart = delete $data{"openapi.json"};
printf "%-18s %8s %8s %8s\n", "", "C", "data", "both";
my %rooms = (%code, %data);
for my $room (sort { ($a =~ /^bench|^sql/ ? 1 : 0) <=> ($b =~ /^bench|^sql/ ? 1 : 0) || $a cmp $b } keys %rooms) {
    my ($code, $data) = ($code{$room} // 0, $data{$room} // 0);
    $code_sum += $code;
    $data_sum += $data;
    printf "%-18s %8d %8d %8d\n", $room, $code, $data, $code + $data;
}
printf "%-18s %8d %8d %8d\n", "sum", $code_sum, $data_sum, $code_sum + $data_sum;
printf "%-18s %8s %8d  (apart)\n", "openapi.json", "", $apart if defined $apart;
