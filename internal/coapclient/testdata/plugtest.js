// The resources of the plugtest lists on node-coap. Prints its port, ends with its
// standard input.
const coap = require('coap')

const core = [
  '</test>;rt="Type1 Type2";if="If1";ct=0', '</link1>;rt="Type1";if="If1"',
  '</link2>;rt="Type2 Type3";if="If2"', '</large>;sz="1700"', '</path>;ct=40'
]

let version = 1

const routes = {
  '/test': (req, res) => text(res, 'test'),
  '/seg1/seg2/seg3': (req, res) => text(res, 'segments'),
  '/query': (req, res) => text(res, req.url),
  '/separate': (req, res) => setTimeout(() => text(res, 'separate'), 300),
  '/large': (req, res) => text(res, 'large'.repeat(340)),
  '/path': (req, res) => links(res, ['</path/sub1>', '</path/sub2>']),
  '/path/sub1': (req, res) => text(res, 'sub1'),
  '/validate': (req, res) => {
    const tag = 'v' + version // the library makes text of ETags
    const same = req.options.some(o => o.name === 'ETag' && String(o.value) === tag)
    res.setOption('ETag', tag)
    if (same) {
      res.code = '2.03'
      return res.end()
    }
    text(res, 'version ' + version)
  },
  '/change': (req, res) => text(res, String(++version)),
  '/.well-known/core': (req, res) => {
    const m = /\?(\w+)=(.*)$/.exec(decodeURIComponent(req.url))
    links(res, core.filter(l => !m || matches(l, m[1], m[2])))
  }
}

function text (res, body) {
  res.setOption('Content-Format', 'text/plain')
  res.end(body)
}

function links (res, list) {
  res.setOption('Content-Format', 'application/link-format')
  res.end(list.join(','))
}

// matches is the filter of RFC 6690 section 4.1.
function matches (link, name, want) {
  const target = /^<([^>]*)>/.exec(link)[1]
  const value = name === 'href' ? target : (new RegExp(';' + name + '="?([^";]*)').exec(link) || [])[1]
  if (value === undefined) return false
  return value.split(' ').some(v => want.endsWith('*') ? v.startsWith(want.slice(0, -1)) : v === want)
}

const server = coap.createServer({ host: '127.0.0.1' }, (req, res) => {
  const route = routes[req.url.split('?')[0]]
  if (route) return route(req, res)
  res.code = '4.04'
  res.end()
})
server.listen(0, () => console.log(server._sock.address().port))
process.stdin.on('end', () => process.exit(0)).resume()
