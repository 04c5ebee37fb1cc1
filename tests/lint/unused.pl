# Functions that no program uses, and statements in no list: perl tests/lint/unused.pl FILE... (all
# of src, bench and tests). A function that a header of src declares must be mentioned in code
# outside of its declaration and its definition. Functions after a comment that says "For tests", up
# to the next comment or empty line, must be used by tests. Code between #ifdef SLUICE_TEST_BUILD
# and #endif is skipped.
use strict;
use warnings;

my (%count, %tested, %for_tests, %where, @pasted, %stmt, %listed);
local $/;
for my $path (@ARGV) {
    open my $in, "<", $path or die "$path: $!\n";
    my $code = <$in>;
    if ($path =~ m{^tests/}) {
        $tested{$_} = 1 for $code =~ /\b([a-z]\w*)\b/g;
        next;
    }
    while ($code =~ m{/\*((?:(?!\*/).)*)\*/\n((?:[^\n/]+\n)+)}gs) {
        my ($comment, $declared) = ($1, $2);
        next if $comment !~ /\bFor tests\b/;
        $for_tests{$_} = $path for $declared =~ /(\w+)\(/g;
    }
    $code =~ s{/\*.*?\*/|//[^\n]*}{}gs;
    $code =~ s{^#ifdef SLUICE_TEST_BUILD\n.*?^#endif\n}{}gsm;
    $code =~ s{"(?:[^"\\\n]|\\.)*"}{""}g;
    $count{$_}++ for $code =~ /\b([a-z]\w*)\b/g;
    push @pasted, $code =~ /\b([a-z]\w*_)##/g; # a macro makes names that begin with this
    if ($path =~ m{^src/store/.*\.c$}) {
        $stmt{$_} = $path for $code =~ /^(?:static )?const struct pg_stmt (\w+)(?:\[\w*\])? =/gm;
        for my $list ($code =~ /_stmts\[\] = \{(.*?)\}/gs) {
            $listed{$_} = 1 for $list =~ /&(\w+)/g;
        }
        $stmt{$_} = $path for $code =~ /\b(\w+)_stmts\[\] =/g;
    }
    if ($path eq "src/store/internal.h") {
        $listed{$_} = 1 for $code =~ /\bX\((\w+)\)/g;
    }
    next if $path !~ m{^src/.*\.h$};
    while ($code =~ /^(static inline )?(?!typedef|static )([a-z][\w \*]*?)\b(\w+)\((?!\*)/gm) {
        $where{$3} = [$path, $1 ? 1 : 2] if !$for_tests{$3};
    }
}
for my $name (sort keys %where) {
    my ($path, $own) = @{ $where{$name} };
    next if $count{$name} > $own || grep { index($name, $_) == 0 } @pasted;
    print "$path: $name() is used by no program (a function for tests says \"For tests\" in its comment)\n";
}
print "$for_tests{$_}: $_() is for tests, and none uses it\n"
    for grep { !$tested{$_} } sort keys %for_tests;
print "$stmt{$_}: $_ is in no list of statements (STORE_FILES of src/store/internal.h, or its file's)\n"
    for grep { !$listed{$_} } sort keys %stmt;
