#!/usr/bin/env perl
# Finds in the functions of sql/ and in the statements of src/store what Citus refuses, so far as it
# can be seen by reading:
#
# - A function that is not immutable within a CASE or COALESCE of a change: now(), or a time with an
#   interval. It is computed before the change.
# - A change of a copied table after one that names no account, and so goes to all shards at once.
#   The call of the function has to set STORE_ONE_SHARD_AFTER_ANOTHER.
# - A subquery without columns: Citus may store its rows, and cannot read them again.
use strict;
use warnings;

sub text_of
{
    my ($file) = @_;
    open my $in, '<', $file or die "$file: $!\n";
    local $/;
    return scalar <$in>;
}

my (%functions, %is_copied, %is_distributed);
my $tables = text_of('sql/citus.sql');
$is_copied{$1} = 1 while $tables =~ /pg_temp\.copied\('sluice\.(\w+)'\)/g;
$is_distributed{$1} = 1 while $tables =~ /pg_temp\.distributed\('sluice\.(\w+)'\)/g;
die "sql/citus.sql names no tables\n" unless %is_copied && %is_distributed;

# The last definition counts. Functions of one name differ by their parameters.
for my $file (sort glob 'sql/[0-9]*.sql') {
    my $text = text_of($file);
    $text =~ s/--.*//g;
    while ($text =~ /create (?:or replace )?function sluice\.(\w+)\((.*?)\).*?\$\$(.*?)\$\$/gs) {
        my ($name, $params, $body) = ($1, $2, $3);
        $params =~ s/\s+/ /g;
        $functions{"$name($params)"} = { name => $name, file => $file, body => $body };
    }
}
my %store = map { $_ => text_of($_) } sort glob 'src/store/*.[ch]';

# Whether each call has the setting in the text before it.
sub is_sequential
{
    my ($name) = @_;
    for my $text (values %store) {
        while ($text =~ /(.{0,200})sluice\.\Q$name\E\(/gs) {
            return 0 unless $1 =~ /STORE_ONE_SHARD_AFTER_ANOTHER/;
        }
    }
    return 1;
}

for my $key (sort keys %functions) {
    my ($name, $file, $body) = @{ $functions{$key} }{qw(name file body)};
    my $is_spread = 0;
    for my $statement (split /;/, $body) {
        next unless $statement =~ /\b(?:insert into|update|delete from) sluice\.(\w+)/;
        my $table = $1;
        while ($statement =~ /\b(?:case\b(.*?)\bend\b|coalesce(\((?:[^()]|(?2))*\)))/gs) {
            my $part = $1 // $2;
            print "$file: $name: Citus accepts no now() and no interval within CASE or COALESCE of a",
                " change of $table: compute it before\n"
                if $part =~ /\bnow\(\)|\binterval\b/;
        }
        print "$file: $name: changes $table after a change that names no account: call it with",
            " STORE_ONE_SHARD_AFTER_ANOTHER\n"
            if $is_copied{$table} && $is_spread && !is_sequential($name);
        $is_spread ||= $is_distributed{$table} && $statement !~ /insert into|\baccount_id = /;
    }
}
for my $file (sort keys %store) {
    print "$file: a subquery without columns: write \"select 1 from\"\n"
        if $store{$file} =~ /\(select from\b/;
}
