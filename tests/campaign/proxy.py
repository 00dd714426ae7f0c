"""A TCP proxy with faults, for campaigns and for clients in Python. Its event loop has a thread of its own; members are
set from outside."""
import asyncio
import random
import socket
import threading


class Proxy:
    def __init__(self, host, port, listen="127.0.0.1", seed=0):
        self.host, self.target = host, port
        self.random = random.Random(seed)
        self.connections = set()
        self.heal()
        self.loop = asyncio.new_event_loop()
        self.port = 0
        ready = threading.Event()
        threading.Thread(target=self.run, args=(listen, ready), daemon=True).start()
        ready.wait()

    def heal(self):
        self.delay = {"up": 0.0, "down": 0.0}  # s, at most, of each piece
        self.hold = {"up": False, "down": False}  # nothing flows, nothing is lost
        self.late = set()  # connections whose requests are held back, while others flow: they arrive late
        self.cut_in_the_middle = 0  # of so many replies
        self.refuse = False
        self.trickle = False

    def run(self, listen, ready):
        asyncio.set_event_loop(self.loop)

        async def serve():
            server = await asyncio.start_server(self.accept, listen, 0, backlog=256)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
        self.loop.run_until_complete(serve())
        self.loop.run_forever()

    async def accept(self, reader, writer):
        ends = (writer,)
        try:
            if self.refuse:
                return
            up_reader, up_writer = await asyncio.wait_for(asyncio.open_connection(self.host, self.target), 5)
            ends = (writer, up_writer)
            for end in ends:
                end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections.add(ends)
            await asyncio.gather(self.pump(reader, up_writer, "up", ends), self.pump(up_reader, writer, "down", ends))
        except (OSError, asyncio.TimeoutError):
            pass
        finally:
            self.connections.discard(ends)
            for end in ends:
                end.transport.abort()

    async def pump(self, reader, writer, way, ends):
        while True:
            piece = await reader.read(65536)
            if self.delay[way]:
                await asyncio.sleep(self.random.uniform(0, self.delay[way]))
            while self.hold[way] or (way == "up" and ends in self.late):
                await asyncio.sleep(0.01)
            if not piece:
                raise ConnectionError  # ends the other way too
            if way == "down" and self.cut_in_the_middle > 0:
                self.cut_in_the_middle -= 1
                writer.write(piece[:self.random.randrange(len(piece))])
                raise ConnectionError
            for part in self.parts(piece):
                writer.write(part)
                await writer.drain()

    def parts(self, piece):
        if not self.trickle:
            return [piece]
        size = self.random.choice((1, 3, 7))
        return [piece[at:at + size] for at in range(0, len(piece), size)]

    def make_late(self):
        self.late = set(self.connections)

    def cut_all(self):
        def cut():
            for ends in list(self.connections):
                for end in ends:
                    end.transport.abort()
        self.loop.call_soon_threadsafe(cut)
