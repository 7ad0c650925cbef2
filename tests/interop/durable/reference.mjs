// The official reference server, its file store in a folder: `reference.mjs DIR PORT READY_FD [LONG_POLL_MS]` writes one line
// of JSON to READY_FD when it listens and ends with SIGTERM. DIR "memory" keeps all in memory.
import { writeSync } from "node:fs"
import { DurableStreamTestServer } from "@durable-streams/server"

const [dir, port, ready, wait] = process.argv.slice(2)
const server = new DurableStreamTestServer({
	host: "127.0.0.1",
	port: Number(port),
	longPollTimeout: Number(wait ?? 500),
	webhooks: true,
	...(dir === "memory" ? {} : { dataDir: dir }),
})
const url = await server.start()
writeSync(Number(ready), JSON.stringify({ ready: true, port: Number(new URL(url).port) }) + "\n")
process.on("SIGTERM", async () => {
	// It waits for its connections: those on which is asked on and on are to end as well.
	server.server.prependListener("request", (_, response) => {
		response.shouldKeepAlive = false
	})
	await server.stop()
	process.exit(0)
})
