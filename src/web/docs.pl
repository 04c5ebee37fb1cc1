# Makes the data of the docs' pages (docs.html, docs_operation.html) from the interface's document: a
# line for the list, then for each page a line of its name, a tab and its data as JSON: the first five
# minutes, the error codes, and each operation. Only what perl has without any module: the build needs
# no package for it.
#
#   perl src/web/docs.pl <src/api/openapi.json >docs.pack
use strict;
use warnings;

# ---- JSON: an object is a hash that keeps its order, a number or a name a reference to its text ----

my $text = do { local $/; <STDIN> };

sub decode
{
    my ($string) = @_;
    my %escapes = (n => "\n", t => "\t", r => "\r", b => "\b", f => "\f");
    die "docs.pl: an escape of half a character\n" if $string =~ /\\u[dD][89a-fA-F]/;
    $string =~ s{\\(?:u(....)|(.))}{
        my $char = defined $1 ? chr hex $1 : $escapes{$2} // $2;
        utf8::encode($char);
        $char }ge;
    return $string;
}

sub parse
{
    $text =~ /\G\s*/gc;
    return decode($1) if $text =~ /\G"((?:[^"\\]|\\.)*)"/gc;
    return \"$1" if $text =~ /\G([-+.\w]+)/gc;
    my ($list, $object) = ([], {order => [], of => {}});
    if ($text =~ /\G\[/gc) {
        push @$list, parse() and $text =~ /\G\s*,/gc until $text =~ /\G\s*\]/gc;
        return $list;
    }
    $text =~ /\G\{/gc or die "docs.pl: not JSON at byte " . pos($text) . "\n";
    until ($text =~ /\G\s*\}/gc) {
        my $key = parse();
        $text =~ /\G\s*:/gc;
        push @{$object->{order}}, $key;
        $object->{of}{$key} = parse();
        $text =~ /\G\s*,/gc;
    }
    return $object;
}

# "..." of a string, null of nothing. depth: of a text that people read, else compact.
sub encode
{
    my ($value, $depth) = @_;
    my $inner = defined $depth ? $depth + 1 : undef;
    my ($break, $end) = map { defined $_ ? "\n" . '  ' x $_ : '' } $inner, $depth;
    return 'null' unless defined $value;
    return $$value if ref $value eq 'SCALAR';
    unless (ref $value) {
        my %escapes = ("\n" => 'n', "\t" => 't', "\r" => 'r', "\b" => 'b', "\f" => 'f');
        $value =~ s/([\x00-\x1f"\\])/'\\' . ($escapes{$1} || ($1 lt ' ' ? sprintf 'u%04x', ord $1 : $1))/ge;
        return "\"$value\"";
    }
    my $is_list = ref $value eq 'ARRAY';
    my $joint = defined $depth ? ': ' : ':';
    my @parts = $is_list ? map { encode($_, $inner) } @$value
        : map { encode($_) . $joint . encode($value->{of}{$_}, $inner) } @{$value->{order}};
    my ($open, $close) = $is_list ? ('[', ']') : ('{', '}');
    return $open . (@parts ? $break . join(",$break", @parts) . $end : '') . $close;
}

sub object
{
    my @members = @_;
    return {order => [@members[grep { $_ % 2 == 0 } 0 .. $#members]], of => {@members}};
}

# ---- the document ----

my $root = parse();

# A member, however deep; undef: there is none.
sub get
{
    my ($value, @keys) = @_;
    $value = ref $value eq 'HASH' ? $value->{of}{$_} : undef for @keys;
    return $value;
}

# What a "$ref" refers to; the value itself without one.
sub follow
{
    my ($value) = @_;
    my $hops = 0;
    while (defined(my $path = get($value, '$ref'))) {
        die "docs.pl: a circle of references at $path\n" if $hops++ == 8;
        my (undef, @keys) = split m{/}, $path;
        $value = get($root, @keys) // die "docs.pl: nothing at $path\n";
    }
    return $value;
}

sub is_among { my ($list, $name) = @_; return scalar grep { $_ eq $name } @{$list || []} }
sub flag { return $_[0] ? \'true' : \'false' }

# "string", "integer or null", "list of object", or the values that there are.
sub type_of
{
    my $schema = follow($_[0]);
    my $words = get($schema, 'enum');
    my $type = get($schema, 'type') // 'any';
    return join ', ', map { ref $_ ? $$_ : $_ } @$words if $words;
    return join ' or ', @$type if ref $type;
    return $type eq 'array' ? 'list of ' . type_of(get($schema, 'items')) : $type;
}

# Paragraphs of what is text and, between backticks, code.
sub paragraphs
{
    my @found;
    for my $paragraph (split /\n\n/, $_[0] // '') {
        my $is_code = 1;
        push @found, object(parts => [map { object(is_code => flag($is_code = !$is_code), text => $_) }
            split /`/, $paragraph]);
    }
    return \@found;
}

# As docs_member.html declares it.
sub member
{
    my ($name, $place, $is_required, $schema, $text) = @_;
    return object(name => $name, place => $place, required => flag($is_required), type => type_of($schema),
        text => paragraphs($text));
}

# The members of an object's schema, and of those that it is all of.
sub members
{
    my $schema = follow($_[0]);
    my $own = get($schema, 'properties');
    return (map { members($_) } @{get($schema, 'allOf') || []}), map {
        my $one = $own->{of}{$_};
        member($_, 'body', is_among(get($schema, 'required'), $_), $one,
            get($one, 'description') // get(follow($one), 'description'))
    } $own ? @{$own->{order}} : ();
}

# The call up to the address of this site, and what follows it; the key is in the shell's $SLUICE_KEY.
sub call
{
    my ($path, $method, $operation, $content) = @_;
    my $examples = get($content, 'examples');
    my $body = $examples ? get(follow($examples->{of}{$examples->{order}[0]}), 'value') : get($content, 'example');
    my $security = get($operation, 'security');
    my $is_plain = $method eq 'GET' || ($body && $method eq 'POST');
    my $rest = $path;
    $rest .= " \\\n  -H \"Authorization: Bearer \$SLUICE_KEY\"" if !$security || @$security;
    $rest .= " \\\n  -H 'Content-Type: application/json' \\\n  -d '" . encode($body, 0) =~ s/'/'\\''/gr . "'" if $body;
    return (curl => 'curl ' . ($is_plain ? '' : "-X $method "), address => $rest);
}

# As docs_row.html declares it.
sub head
{
    my ($path, $method, $operation) = @_;
    return (id => get($operation, 'operationId'), method => $method, path => $path,
        summary => get($operation, 'summary'), scope => get($operation, 'x-scope'));
}

sub page
{
    my ($path, $method, $operation) = @_;
    my $content = get(follow(get($operation, 'requestBody')), 'content', 'application/json');
    my $responses = get($operation, 'responses');
    my @parameters = map { follow($_) } @{get($operation, 'parameters') || []};
    return object(head(@_), text => paragraphs(get($operation, 'description')),
        parameters => [map { member(get($_, 'name'), get($_, 'in'), ${get($_, 'required') || \''} eq 'true',
            get($_, 'schema'), get($_, 'description')) } @parameters],
        members => [members(get($content, 'schema'))],
        responses => [map { object(status => $_,
            text => paragraphs(get(follow($responses->{of}{$_}), 'description'))) } @{$responses->{order}}],
        call(@_, $content));
}

my @operations;
for my $path (@{get($root, 'paths')->{order}}) {
    for my $method (qw(get post put patch delete)) {
        my $operation = get($root, 'paths', $path, $method);
        push @operations, [$path, uc $method, $operation] if $operation;
    }
}
my @tags = map { my $tag = $_; object(name => get($tag, 'name'), text => get($tag, 'description'),
    operations => [map { object(head(@$_)) } grep { is_among(get($_->[2], 'tags'), get($tag, 'name')) } @operations])
} @{get($root, 'tags')};
# As docs_errors.html declares it: the codes of a schema, each with its meaning.
sub codes
{
    my ($name, $prefix, $schema) = @_;
    my $meanings = get($schema, 'x-enumDescriptions');
    return object(name => $name, codes => [map {
        object(id => "$prefix$_", code => $_, text => get($meanings, $_) // die "docs.pl: $name $_ has no meaning\n")
    } @{get($schema, 'enum')}]);
}
my @schemas = qw(components schemas);

print encode(object(text => paragraphs(get($root, 'info', 'description')), tags => \@tags)), "\n";
print "start\ttrue\n";
print "errors\t", encode([codes('error_code', '', get($root, @schemas, 'ErrorCode')),
    codes('error.code', 'exact-', get($root, @schemas, 'ToolError', 'properties', 'code'))]), "\n";
print get($_->[2], 'operationId'), "\t", encode(page(@$_)), "\n" for @operations;
