#!/usr/bin/env perl
# Reports a test program's output: tests/report.pl NAME STATUS SECONDS LOG
#
# LOG is its whole output, TAP as cmocka and Node's test runner write it: "ok 1 - name", "not ok",
# "# SKIP", Node's with a block of YAML after each. A program that prints none counts as a single
# test, by its exit status (77 is a skip). Prints a line with the numbers, its figures (lines that
# begin with "figure: ") and, if it failed, the whole of LOG except for the program's own leaks, as a
# failed test does not free its memory. Those of a server are a failure's reason. Writes LOG.counts ("PASSED FAILED SKIPPED") and, if it failed, LOG.failures,
# which has the failed tests with the place and the reason in short, and LOG.names, which has only
# their names.
use strict;
use warnings;

use constant { TESTS_MAX => 4, LINES_MAX => 14 };
my ($name, $status, $seconds, $log) = @ARGV;
my %count = (passed => 0, failed => 0, skipped => 0);
my ($plan, $seen, $cpu, @figures, @failures, @names, @died, @tail) = (0, 0, '?');
my ($test, $part, $dying) = (undef, '', 0);

sub keep { push @{$test->{lines}}, $_[0] if $test && @{$test->{lines}} < LINES_MAX }

# The test to which these lines belong.
sub end_test {
    my $one = $test or return;
    $test = undef;
    $seen++;
    return if $one->{is_suite};
    $count{$one->{how}}++;
    return if $one->{how} ne 'failed' || $one->{is_parent};
    push @names, $one->{name};
    push @failures, "  $one->{said}\n", map { "    $_\n" } @{$one->{lines}}, $one->{frame} // () if @names <= TESTS_MAX;
}

# A line of a test's block of YAML.
sub read_yaml {
    my ($line, $plain) = @_;
    if ($plain eq '...') { $part = ''; end_test() }
    elsif ($plain =~ /^(location|error|stack|code|name|expected|actual|operator|failureType|duration_ms|type):/) {
        $part = $1;
        keep($plain) if $part =~ /^(location|error)$/;
        $test->{is_parent} = 1 if $plain =~ /^failureType: .subtestsFailed/;
        $test->{is_suite} = 1 if $plain =~ /^type: .suite/;
    }
    elsif ($part eq 'error') { $line =~ s/^ {$test->{indent}}//; keep($line) if $plain ne '' }
    elsif ($part eq 'stack' && $plain =~ /file:/) { $test->{frame} //= "at $plain" }
}

sub read_line {
    my ($line) = @_;
    (my $plain = $line) =~ s/^ +//;
    return read_yaml($line, $plain) if $part ne '';
    if ($plain =~ /^1\.\.(\d+)/) { end_test(); $plan += $1; return }
    if ($plain =~ /^(not )?ok\b(?: +\d+)?(?: +- *)?(.*)/) {
        end_test();
        my ($is_not, $what) = ($1, $2);
        my $is_skip = $is_not ? $plain =~ /# *(SKIP|TODO)/ : $plain =~ /# *(SKIP|TODO)/i;
        $test = { how => $is_skip ? 'skipped' : $is_not ? 'failed' : 'passed', name => $what, said => $plain, lines => [] };
        return;
    }
    my $is_next = $test && !$test->{has_more}++;
    if ($is_next && $plain eq '---') {
        $part = 'begin';
        $test->{indent} = length($line) - length($plain);
        return;
    }
    if ($line =~ /^# cpu ([0-9.]+)$/) { $cpu = $1; return }
    push @figures, $1 if $line =~ /^(?:# )?figure: (.*)/;
    keep($1) if $plain =~ /^# (.*)/ && $plain !~ /^# not ok/;
    $dying = LINES_MAX if $line =~ /ERROR: (Address|UndefinedBehavior|Thread)Sanitizer|runtime error:|ASSERT\(.*\) failed/;
    push @died, "    $line\n" if $dying-- > 0;
    return if $plain eq '';
    push @tail, "    $line\n";
    shift @tail if @tail > LINES_MAX;
}

# The log, if it failed.
sub print_log {
    my ($is_failed, $is_leak) = (0, 0);
    print "----- $name (exit status $status) -----\n";
    for (@_) {
        $is_failed ||= /^ *not ok/;
        $is_leak ||= $is_failed && /^==\d+==ERROR: LeakSanitizer/;
        print "$_\n" unless $is_leak;
        if ($is_leak && /^SUMMARY: /) { print "($_; not listed, since a test failed)\n"; $is_leak = 0 }
    }
    print "----- end of $name -----\n";
}

sub write_file {
    my ($end, @text) = @_;
    open(my $file, '>', "$log.$end") or die "$log.$end: $!\n";
    print $file @text;
    close($file) or die "$log.$end: $!\n";
}

open(my $file, '<', $log) or die "$log: $!\n";
chomp(my @lines = <$file>);
s/\r$// for @lines;
read_line($_) for @lines;
end_test();
if (!$seen && !$plan) { $count{$status == 0 ? 'passed' : $status == 77 ? 'skipped' : 'failed'} = 1 }
else {
    # A program that ended early did not run the rest of its plan.
    $count{failed} += $plan - $seen if $plan > $seen;
    $count{failed} = 1 if $status != 0 && !$count{failed};
}
my $word = $count{failed} ? 'FAIL' : $count{passed} ? 'pass' : 'skip';
printf "%-4s  %-44s %4d passed", $word, $name, $count{passed};
for my $how (qw(failed skipped)) { print ", $count{$how} $how" if $count{$how} }
print "  $seconds s, $cpu s of CPU\n";
print "      $_\n" for @figures;
write_file('counts', "$count{passed} $count{failed} $count{skipped}\n");
exit unless $count{failed};
print_log(@lines);
push @failures, sprintf("  and %d more\n", @names - TESTS_MAX) if @names > TESTS_MAX;
push @failures, @died;
write_file('failures', "failed: $name (exit status $status)\n", @failures ? @failures : @tail);
write_file('names', map { "$_\n" } @names);
