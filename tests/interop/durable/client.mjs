// The official client against DS_URL: what it writes is what it reads, in every mode. One word in argv[2] names the part.
import assert from "node:assert/strict"
import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client"

const base = `${process.env.DS_URL}/v1/stream/client`
const decoder = new TextDecoder()
const encoder = new TextEncoder()
const count = 500

// Fails, rather than waits for ever.
function within(ms, what, promise) {
	let timer
	const late = new Promise((_, fail) => {
		timer = setTimeout(() => fail(new Error(`not within ${ms} ms: ${what}`)), ms)
	})
	return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

const numbers = (from, to) => Array.from({ length: to - from }, (_, i) => ({ n: from + i, text: `é ${from + i}\n` }))

async function catchUp() {
	const url = `${base}/catch-up`
	const handle = await DurableStream.create({ url, contentType: "application/json" })
	const rows = numbers(0, count)
	await Promise.all(rows.map((row) => handle.append(JSON.stringify(row)))) // in batches, as the client does
	const all = await stream({ url, live: false })
	assert.deepEqual(await all.json(), rows)
	const head = await handle.head()
	assert.equal(head.offset, all.offset)
	const rest = await stream({ url, offset: all.offset, live: false })
	assert.deepEqual(await rest.json(), [])

	const bytes = `${base}/bytes`
	const binary = await DurableStream.create({ url: bytes, contentType: "application/octet-stream" })
	const data = Uint8Array.from({ length: 3_000_000 }, (_, i) => (i * 31) % 253)
	for (let i = 0; i < data.length; i += 100_000) {
		await binary.append(data.slice(i, i + 100_000))
	}
	const whole = await (await stream({ url: bytes })).body()
	assert.ok(Buffer.from(whole).equals(Buffer.from(data)))
	const pages = [] // with live: false the client reads one page
	for (let offset = "-1"; ;) {
		const res = await stream({ url: bytes, offset, live: false })
		pages.push(Buffer.from(await res.body()))
		if (res.upToDate) {
			break
		}
		offset = res.offset
	}
	assert.ok(Buffer.concat(pages).equals(Buffer.from(data)))

	const text = `${base}/text`
	const words = await DurableStream.create({ url: text, contentType: "text/plain" })
	await words.append("one ")
	await words.append("två\n")
	assert.equal(await (await stream({ url: text, live: false })).text(), "one två\n")
}

// A reader of all that is there and of what comes, until the stream is closed.
async function live(mode, contentType) {
	const url = `${base}/live-${mode}-${contentType.replace("/", "-")}`
	const json = contentType === "application/json"
	const handle = await DurableStream.create({ url, contentType })
	const rows = numbers(0, 200)
	const write = async (from, to) => {
		for (let i = from; i < to; i++) {
			await handle.append(json ? JSON.stringify(rows[i]) : encoder.encode(JSON.stringify(rows[i]) + "\n"))
		}
	}
	await write(0, 100)
	const res = await stream({ url, live: mode, offset: "-1" })
	const got = []
	let text = ""
	let first
	const caughtUp = new Promise((resolve) => {
		first = resolve
	})
	const seen = (n) => n >= 100 && first()
	if (json) {
		res.subscribeJson(async (batch) => {
			got.push(...batch.items)
			seen(got.length)
		})
	} else {
		res.subscribeBytes(async (chunk) => {
			text += decoder.decode(chunk.data)
			seen(text.split("\n").length - 1)
		})
	}
	await within(20000, "caught up", caughtUp)
	await write(100, 120)
	// what is left comes of an idempotent producer, several requests on their way at once; it closes the stream
	const errors = []
	const producer = new IdempotentProducer(handle, "live", {
		lingerMs: 1, maxBatchBytes: 300, maxInFlight: 4, onError: (e) => errors.push(e),
	})
	for (let i = 120; i < 200; i++) {
		producer.append(json ? JSON.stringify(rows[i]) : encoder.encode(JSON.stringify(rows[i]) + "\n"))
	}
	await within(20000, "all is stored", producer.flush())
	await within(20000, "closed", producer.close())
	assert.deepEqual(errors, [])
	await within(20000, "the end of the stream", res.closed)
	assert.deepEqual(json ? got : text.trimEnd().split("\n").map((line) => JSON.parse(line)), rows)
}

async function produce() {
	const url = `${base}/produce`
	const handle = await DurableStream.create({ url, contentType: "application/json" })
	const rows = numbers(0, 5000)
	const errors = []
	// A network that loses one answer in five: what was stored is sent again.
	let calls = 0
	let again = 0
	const losing = async (...args) => {
		const response = await fetch(...args)
		calls++
		if (calls % 5 !== 0 || response.status !== 200) {
			return response // a later one may be there first: 409, and it comes again by itself
		}
		await response.arrayBuffer()
		again++
		const second = await fetch(...args)
		assert.equal(second.status, 204)
		return second
	}
	const producer = new IdempotentProducer(handle, "loader", {
		fetch: losing, lingerMs: 1, maxBatchBytes: 2000, maxInFlight: 5, onError: (e) => errors.push(e),
	})
	for (const row of rows) {
		producer.append(JSON.stringify(row))
	}
	await within(60000, "all is stored", producer.flush())
	await within(10000, "closed", producer.close())
	assert.deepEqual(errors, [])
	assert.ok(again > 5, `${again} were sent again`)
	const res = await stream({ url, live: false })
	assert.deepEqual(await res.json(), rows)
	const head = await handle.head()
	assert.equal(head.streamClosed, true)

	// A later one with the same name takes over; the former is fenced off.
	const shared = await DurableStream.create({ url: `${base}/fence`, contentType: "application/json" })
	const fenced = []
	const old = new IdempotentProducer(shared, "one", { onError: (e) => fenced.push(e) })
	old.append(JSON.stringify({ a: 1 }))
	await old.flush()
	const next = new IdempotentProducer(shared, "one", { epoch: 1 })
	next.append(JSON.stringify({ a: 2 }))
	await within(10000, "taken over", next.flush())
	old.append(JSON.stringify({ a: 3 }))
	await old.flush().catch((e) => fenced.push(e))
	assert.ok(fenced.length > 0)
	assert.deepEqual(await (await stream({ url: shared.url, live: false })).json(), [{ a: 1 }, { a: 2 }])
}

const parts = {
	"catch-up": catchUp,
	"long-poll": async () => {
		await live("long-poll", "application/json")
		await live("long-poll", "application/octet-stream")
	},
	sse: async () => {
		await live("sse", "application/json")
		await live("sse", "text/plain")
		await live("sse", "application/octet-stream")
	},
	produce,
}
await parts[process.argv[2]]()
console.log("good")
process.exit(0)
