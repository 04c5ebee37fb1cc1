// Requests that two parsers could read in different ways, as raw text. Each must be refused, and
// the connection closed: `SMUGGLED` after it is never handled as a request.

export const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: smuggled\r\n\r\n';

const get = (...lines) => ['GET /healthz HTTP/1.1', ...lines, '', ''].join('\r\n');
const host = 'Host: a';

// name -> request; the status is 400 unless the entry says otherwise.
const heads = {
  // line structure
  'CR without LF after the request line': `GET /healthz HTTP/1.1\rHost: a\r\n\r\n`,
  'CR inside a value': get(host, 'X: a\rb'),
  'CR before CRLF': `GET /healthz HTTP/1.1\r\nHost: a\r\r\n\r\n`,
  'CR CR LF at the end': `GET /healthz HTTP/1.1\r\nHost: a\r\n\r\r\n`,
  'LF alone after the request line': `GET /healthz HTTP/1.1\nHost: a\r\n\r\n`,
  'LF alone after a field': `GET /healthz HTTP/1.1\r\nHost: a\nX: b\r\n\r\n`,
  'LF alone at the end': `GET /healthz HTTP/1.1\r\nHost: a\r\n\n`,
  'LF LF': `GET /healthz HTTP/1.1\nHost: a\n\n`,
  'NUL in a value': get(host, 'X: a\0b'),
  'NUL in a name': get(host, 'X\0: b'),
  'NUL in the target': `GET /health\0z HTTP/1.1\r\nHost: a\r\n\r\n`,
  'a control character in a value': get(host, 'X: a\x01b'),
  'DEL in a value': get(host, 'X: a\x7fb'),
  'a folded line': get(host, 'X: a', ' b'),
  'a folded line with a tab': get(host, 'X: a', '\tb'),
  'a folded Transfer-Encoding': get(host, 'Transfer-Encoding:', ' chunked'),
  'a first field after a space': get(' Host: a'),
  'a space before a framing field': get(host, ' Content-Length: 4'),
  // the request line
  'a tab in the request line': `GET\t/healthz HTTP/1.1\r\nHost: a\r\n\r\n`,
  'a tab before the version': `GET /healthz\tHTTP/1.1\r\nHost: a\r\n\r\n`,
  'two spaces before the target': `GET  /healthz HTTP/1.1\r\nHost: a\r\n\r\n`,
  'two spaces before the version': `GET /healthz  HTTP/1.1\r\nHost: a\r\n\r\n`,
  'a space after the version': `GET /healthz HTTP/1.1 \r\nHost: a\r\n\r\n`,
  'a space before the method': ` GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n`,
  'no version': `GET /healthz\r\nHost: a\r\n\r\n`,
  'a version in lower case': `GET /healthz http/1.1\r\nHost: a\r\n\r\n`,
  'a version with two digits': `GET /healthz HTTP/1.10\r\nHost: a\r\n\r\n`,
  'a version without a point': `GET /healthz HTTP/11\r\nHost: a\r\n\r\n`,
  'no target': `GET HTTP/1.1\r\nHost: a\r\n\r\n`,
  'a space in the target': `GET /health z HTTP/1.1\r\nHost: a\r\n\r\n`,
  'a byte over 127 in the target': `GET /\xe9 HTTP/1.1\r\nHost: a\r\n\r\n`,
  'a relative target': `GET healthz HTTP/1.1\r\nHost: a\r\n\r\n`,
  'a fragment in the target': `GET /healthz#x HTTP/1.1\r\nHost: a\r\n\r\n`,
  'a method that is not a token': `GE(T /healthz HTTP/1.1\r\nHost: a\r\n\r\n`,
  'an empty method': ` /healthz HTTP/1.1\r\nHost: a\r\n\r\n`,
  // names
  'an empty name': get(host, ': b'),
  'a space after a name': get(host, 'X : b'),
  'a tab after a name': get(host, 'X\t: b'),
  'a space inside a name': get(host, 'X Y: b'),
  'a name that is not a token': get(host, 'X(: b'),
  'a byte over 127 in a name': get(host, 'X\xe9: b'),
  'no colon': get(host, 'Xb'),
  'Content-Length after a space': get(host, 'Content-Length : 4'),
  // Host
  'no Host': get('X: b'),
  'two Hosts': get(host, 'Host: b'),
  'two equal Hosts': get(host, host),
  'a Host with a path': get('Host: a/b'),
  'a Host with a user': get('Host: b@a'),
  'a Host with a space': get('Host: a b'),
  'two Hosts in one': get('Host: a, b'),
  'a Host look-alike': get(host, 'Host_: b'),
  // framing
  'length and chunked': get(host, 'Content-Length: 4', 'Transfer-Encoding: chunked'),
  'chunked and length': get(host, 'Transfer-Encoding: chunked', 'Content-Length: 4'),
  'two lengths': get(host, 'Content-Length: 4', 'Content-Length: 5'),
  'two equal lengths': get(host, 'Content-Length: 4', 'Content-Length: 4'),
  'a list of lengths': get(host, 'Content-Length: 4, 4'),
  'a signed length': get(host, 'Content-Length: +4'),
  'a negative length': get(host, 'Content-Length: -4'),
  'a hexadecimal length': get(host, 'Content-Length: 0x4'),
  'an empty length': get(host, 'Content-Length:'),
  'a length with a space': get(host, 'Content-Length: 4 4'),
  'a length past 2^63': get(host, 'Content-Length: 9223372036854775808'),
  'a length past 2^64': get(host, 'Content-Length: 18446744073709551620'),
  'a length with a point': get(host, 'Content-Length: 4.0'),
  'another coding': get(host, 'Transfer-Encoding: gzip'),
  'another coding before chunked': get(host, 'Transfer-Encoding: gzip, chunked'),
  'a coding after chunked': get(host, 'Transfer-Encoding: chunked, identity'),
  'chunked twice': get(host, 'Transfer-Encoding: chunked, chunked'),
  'two fields of chunked': get(host, 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'),
  'identity and chunked': get(host, 'Transfer-Encoding: identity', 'Transfer-Encoding: chunked'),
  'xchunked': get(host, 'Transfer-Encoding: xchunked'),
  'chunked with a parameter': get(host, 'Transfer-Encoding: chunked;q=1'),
  'chunked in quotes': get(host, 'Transfer-Encoding: "chunked"'),
  'a vertical tab before chunked': get(host, 'Transfer-Encoding: \x0bchunked'),
  'an empty coding': get(host, 'Transfer-Encoding:'),
  'chunked in HTTP/1.0': 'POST /healthz HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n',
  'an underscore twin of Transfer-Encoding': get(host, 'Transfer_Encoding: chunked'),
  'an underscore twin of Content-Length': get(host, 'Content_Length: 4'),
  'Connection names Content-Length': get(host, 'Content-Length: 4', 'Connection: content-length'),
  'Connection names Transfer-Encoding': get(host, 'Transfer-Encoding: chunked', 'Connection: transfer-encoding'),
  'many empty lines before the request': `\r\n\r\n\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n`,
  'an LF before the request': `\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n`,
};

const others = {
  'HTTP/2.0': ['GET /healthz HTTP/2.0\r\nHost: a\r\n\r\n', 505],
  'HTTP/1.2': ['GET /healthz HTTP/1.2\r\nHost: a\r\n\r\n', 505],
  'the preface of HTTP/2': ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505],
  'an unknown method': ['BREW /healthz HTTP/1.1\r\nHost: a\r\n\r\n', 501],
  'a very long method': [`${'A'.repeat(40)} /healthz HTTP/1.1\r\nHost: a\r\n\r\n`, 501],
};

// A TLS client on a plain port.
const clientHello = '\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00';

export const headAttacks = [
  ...Object.entries(heads).map(([name, request]) => ({ name, request, status: 400 })),
  ...Object.entries(others).map(([name, [request, status]]) => ({ name, request, status })),
  { name: 'a TLS client hello', request: clientHello, status: 400 },
];

// After a head that announces a chunked body.
const chunks = {
  'a size that is not a number': 'x\r\n{}\r\n0\r\n\r\n',
  'a size with 0x': '0x2\r\n{}\r\n0\r\n\r\n',
  'a signed size': '+2\r\n{}\r\n0\r\n\r\n',
  'a negative size': '-2\r\n{}\r\n0\r\n\r\n',
  'an empty size': '\r\n{}\r\n0\r\n\r\n',
  'a space before the size': ' 2\r\n{}\r\n0\r\n\r\n',
  'a space after the size': '2 \r\n{}\r\n0\r\n\r\n',
  'a size past 2^64': '10000000000000002\r\n{}\r\n0\r\n\r\n',
  'an LF alone after the size': '2\n{}\r\n0\r\n\r\n',
  'a CR alone after the size': '2\r{}\r\n0\r\n\r\n',
  'no CRLF after the data': '2\r\n{}0\r\n\r\n',
  'an LF alone after the data': '2\r\n{}\n0\r\n\r\n',
  'more data than the size': '2\r\n{} \r\n0\r\n\r\n',
  'an LF alone in an extension': '2;a\nb\r\n{}\r\n0\r\n\r\n',
  'a NUL in an extension': '2;a\0\r\n{}\r\n0\r\n\r\n',
  'a long extension': `2;${'a'.repeat(5000)}\r\n{}\r\n0\r\n\r\n`,
  'a folded trailer': '2\r\n{}\r\n0\r\nX: a\r\n b\r\n\r\n',
  'an LF alone in a trailer': '2\r\n{}\r\n0\r\nX: a\nY: b\r\n\r\n',
  'a trailer without a name': '2\r\n{}\r\n0\r\n: a\r\n\r\n',
  'a long trailer': `2\r\n{}\r\n0\r\n${'X: a\r\n'.repeat(3000)}\r\n`,
  'an LF alone at the end': '2\r\n{}\r\n0\r\n\n',
};

export const chunkAttacks = Object.entries(chunks).map(([name, body]) => ({ name, body, status: 400 }));
