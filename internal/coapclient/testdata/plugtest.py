"""The resources of the plugtest lists on aiocoap. Prints its port, ends with its standard input."""
import asyncio
import socket
import sys

import aiocoap
from aiocoap import resource

LINK_FORMAT = 40


class Text(resource.Resource):
    def __init__(self, body, format=0, delay=0, **attributes):
        super().__init__()
        self.body, self.format, self.delay, self.attributes = body, format, delay, attributes

    def get_link_description(self):
        return self.attributes

    async def render_get(self, request):
        await asyncio.sleep(self.delay)
        body = self.body(request) if callable(self.body) else self.body
        return aiocoap.Message(payload=body.encode(), content_format=self.format)


class Versions(Text):
    """Changes by /change. ETags are hashes of the body."""

    number = 1

    def __init__(self):
        super().__init__(lambda _: f"version {self.number}")

    async def render_get(self, request):
        response = await super().render_get(request)
        resource.hashing_etag(request, response)
        return response

    def change(self, _):
        self.number += 1
        return str(self.number)


def tree():
    versions = Versions()
    links = {
        "test": Text("test", rt="Type1 Type2", **{"if": "If1"}),
        "link1": Text("link1", rt="Type1", **{"if": "If1"}),
        "link2": Text("link2", rt="Type2 Type3", **{"if": "If2"}),
        "large": Text("large" * 340, sz="1700"),
        "path": Text("</path/sub1>,</path/sub2>", LINK_FORMAT, ct=str(LINK_FORMAT)),
        "seg1/seg2/seg3": Text("segments"),
        "query": Text(lambda r: "/query?" + "&".join(r.opt.uri_query)),
        "separate": Text("separate", delay=0.3),
        "validate": versions,
        "change": Text(versions.change),
    }
    site = resource.Site()
    for path, r in links.items():
        site.add_resource(path.split("/"), r)
    site.add_resource([".well-known", "core"], resource.WKCResource(
        site.get_resources_as_linkheader, impl_info=None))
    return site


async def main():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = await aiocoap.Context.create_server_context(
        tree(), bind=("127.0.0.1", port), transports=["simplesocketserver"])
    print(port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await context.shutdown()


asyncio.run(main())
