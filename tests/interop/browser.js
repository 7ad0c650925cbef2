// Subscribe from a page in headless Chromium, as a web developer would: new WebSocket, JSON.parse, EventSource.
//     node browser.js ws|sse URL COUNT
// Prints the data of each message as one line, the greeting left out; status 1 with the reason on stderr.
// The page itself comes from a server of our own on 127.0.0.1, so that the browser sends that page's Origin.
const http = require('http');
const { chromium } = require('playwright-core');

const [kind, url, count] = [process.argv[2], process.argv[3], Number(process.argv[4])];
const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
	'--disable-background-networking', '--disable-component-update', '--disable-sync'];

// Runs in the page.
function subscribe([how, where, wanted]) {
	return new Promise((resolve, reject) => {
		const got = [];
		const take = (text) => {
			const value = JSON.parse(text);
			if (Array.isArray(value)) {
				got.push({ text, offset: value[0] });
			}
			return got.length === wanted;
		};
		if (how === 'ws') {
			const socket = new WebSocket(where);
			socket.onmessage = (event) => {
				try {
					if (take(event.data)) {
						socket.close(1000);
						resolve(got);
					}
				} catch (error) {
					reject(new Error(`${error}: ${event.data}`));
				}
			};
			socket.onclose = (event) => reject(new Error(`closed ${event.code} ${event.reason}`));
		} else {
			const source = new EventSource(where);
			source.onmessage = (event) => {
				if (take(event.data)) {
					source.close();
					resolve(got);
				}
			};
			source.onerror = () => {
				if (source.readyState === EventSource.CLOSED) {
					reject(new Error('the event source was closed'));
				}
			};
		}
	});
}

async function main() {
	const server = http.createServer((request, response) => {
		response.setHeader('Content-Type', 'text/html');
		response.end('<!doctype html><title>subscriber</title>');
	});
	await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
		headless: true, args: flags });
	try {
		const page = await browser.newPage();
		// An EventSource of another origin needs that server's leave; subscribe from the server's own page then.
		const home = kind === 'sse' ? new URL('/healthz', url).href : `http://127.0.0.1:${server.address().port}/`;
		await page.goto(home);
		for (const { text } of await page.evaluate(subscribe, [kind, url, count])) {
			process.stdout.write(`${text}\n`);
		}
	} finally {
		await browser.close();
		server.close();
	}
}

main().then(() => process.exit(0), (error) => {
	console.error(error.message);
	process.exit(1);
});
