# Which code writes to which table, from the source itself: perl tests/lint/writes.pl
#
# In src/store every function, statement, list and macro is a symbol. Its "insert into", "update"
# and "delete from sluice.TABLE", and the symbols that it names, show which tables it writes.
# Functions of the schema (sql/*.sql) are symbols, too. Then:
#   - a statement is PG_WRITE or PG_WRITE_ONCE if and only if it writes;
#   - no interface (api, web, mcp, cli, serve) calls a function of the store that writes;
#   - the table of src/README.md "Changes" names for each table exactly the files that call one.
use strict;
use warnings;

# Operators' tools over a whole database, which no server runs: they change nothing for a caller.
my %tools = (
    "src/cli/rotate.c"        => "seals all credentials by another key, and no member of a row that a person sees",
    "src/cli/accounts_rows.c" => "erases all rows of an account, its audit events, too",
    "src/cli/engine.c"        => "makes partitions, not rows, where no server has run for days",
);

my (%text, %local, %uses, %tables, @problems);
local $/;

sub slurp {
    my ($path) = @_;
    open my $in, "<", $path or die "$path: $!\n";
    my $code = <$in>;
    $code =~ s{/\*.*?\*/}{}gs if $path =~ /\.[ch]$/;
    return $code;
}

# Functions of the schema: the last definition holds.
for my $path (sort glob "sql/0*.sql") {
    my $sql = slurp($path);
    $text{"sluice.$1"} = $2
        while $sql =~ /^create (?:or replace )?function sluice\.(\w+)\(.*?\$\$(.*?)\$\$/gms;
}

# Symbols of the store: statements and lists, functions, macros. A static one belongs to its file.
my (%statement, %public);
for my $path (sort glob "src/store/*.[ch]") {
    my $code = slurp($path);
    my $keep = sub { my ($name, $body) = @_; $text{"$path $name"} .= $body; };
    while ($code =~ /^#define (\w+)(.*?[^\\])\n/gms) {
        my ($name, $body) = ($1, $2);
        $keep->($name, $body);
        $public{$name} = "$path $name" if $path =~ /\.h$/;
    }
    while ($code =~ /^(static )?const (?:struct pg_stmt|char)(?: \*const)? (\w+)(?:\[\w*\])? ?=(.*?);$/gms) {
        my ($static, $name, $body) = ($1, $2, $3);
        next if $name =~ /_stmts$/; # lists for the tests
        $keep->($name, $body);
        $public{$name} = "$path $name" if !$static;
        $statement{"$path $name"} = 1 if $body =~ /\.sql|STORE_SWEEP/;
    }
    while ($code =~ /^(static )?(?:inline )?[a-z][\w \*]*?\b(\w+)\(([^;{]*)\)\n\{\n(.*?)^\}/gms) {
        my ($static, $name, $params, $body) = ($1, $2, $3, $4);
        # a function without a pool or a connection reads the result of a statement that another has
        # sent
        next if !$static && $params !~ /STORE_ARGS|struct pg_sync /;
        $keep->($name, $body);
        $public{$name} = "$path $name" if !$static || $path =~ /\.h$/;
    }
    while ($code =~ /^STORE_CALL\w*\((\w+), (\w+)/gm) {
        my ($name, $body) = ($1, $2);
        $keep->($name, $body);
        $public{$name} = "$path $name";
    }
}

sub tables_of {
    my ($symbol, $seen) = @_;
    return $tables{$symbol} if $tables{$symbol};
    return {} if $seen->{$symbol}++;
    my $code = $text{$symbol};
    my %found;
    $found{$1} = 1 while $code =~ /\b(?:insert into|update|delete from) sluice\.(\w+|%\S+)/g;
    $found{$1} = 1 while $code =~ /STORE_SWEEP\("\w+",\s*"(\w+)"/g;
    $found{"(partitions)"} = 1 if $symbol =~ /^sluice\./ && $code =~ /\bexecute format\b/;
    my ($path) = $symbol =~ /^(\S+) /;
    my %named = map { $_ => 1 } $code =~ /(sluice\.\w+(?=\())/g;
    $code =~ s/"(?:[^"\\]|\\.)*"//g if $path;
    $named{$_} = 1 for $path ? $code =~ /\b([A-Za-z_]\w+)\b/g : ();
    for my $name (sort keys %named) {
        my $other = $path && $text{"$path $name"} ? "$path $name" : $text{$name} ? $name : $public{$name};
        next if !$other || $other eq $symbol;
        $found{$_} = 1 for keys %{ tables_of($other, $seen) };
    }
    return %$seen > 1 ? \%found : ($tables{$symbol} = \%found);
}

for my $symbol (sort keys %statement) {
    my $writes = keys %{ tables_of($symbol, {}) };
    my $says = $text{$symbol} =~ /PG_WRITE|STORE_SWEEP/;
    my ($path, $name) = split / /, $symbol;
    push @problems, "$path: the statement $name says PG_WRITE, and what it writes cannot be seen" if $says && !$writes;
    push @problems, "$path: the statement $name writes and does not say so (.access)" if $writes && !$says;
}

# ---- who calls them ----

my (%callers, %used);
for my $path (sort glob "src/*/*.[ch]") {
    next if $path =~ m{^src/store/};
    my $code = slurp($path);
    my %names = map { $_ => 1 } $code =~ /\b(store_\w+)\b/g;
    for my $name (sort keys %names) {
        my $symbol = $public{$name} or next;
        my @written = sort keys %{ tables_of($symbol, {}) } or next;
        $callers{$_}{$path} = 1 for @written;
        next if $path !~ m{^src/(?:api|web|mcp|cli|serve)/};
        if ($tools{$path}) {
            $used{$path} = 1;
            next;
        }
        push @problems, "$path: an interface calls $name, which writes @written: a command of the noun's room does";
    }
}
push @problems, "tests/lint/writes.pl: $_ is an exception, but writes nothing" for grep { !$used{$_} } sort keys %tools;

# ---- the table ----

my ($chapter) = slurp("src/README.md") =~ /^## Changes\n(.*?)^## /ms;
my (%listed, %has_row);
for my $row ($chapter =~ /^\| [^`|]+ \| (`.*?) \|$/gm) {
    my ($tables, $files) = split / \| /, "$row | ";
    my @files = $files =~ /`(src\/[^`]+)`/g;
    for my $table ($tables =~ /`(\w+)`/g) {
        $has_row{$table} = 1;
        $listed{$table}{$_} = 1 for @files;
    }
}
for my $table (sort keys %callers) {
    next if $table eq "audit_event" || $table !~ /^\w+$/; # every change writes audit_event; other names: erasure, partitions
    push @problems, "src/README.md: \"Changes\" has no row of the table $table" if !$has_row{$table};
    push @problems, "$_: writes $table, and src/README.md \"Changes\" does not name it for that"
        for grep { !$listed{$table}{$_} && !$tools{$_} } sort keys %{ $callers{$table} };
}
for my $table (sort keys %listed) {
    push @problems, "src/README.md: \"Changes\": $_ does not write $table"
        for grep { !$callers{$table}{$_} } sort keys %{ $listed{$table} };
}
if (@ARGV && $ARGV[0] eq "--print") {
    printf "%s: %s\n", $_, join " ", sort keys %{ $callers{$_} } for sort keys %callers;
}
print map { "$_\n" } @problems;
