// Print what a WebSocket server sends, with npm's ws: each data message as one line, its bytes unchanged.
//     node wsclient.js URL COUNT
// The greeting is left out. Ends after COUNT messages; status 1 and {"code", "reason"} on stderr when closed before.
const { writeSync } = require('fs');
const WebSocket = require('ws');

const [url, count] = [process.argv[2], Number(process.argv[3])];
const socket = new WebSocket(url, { perMessageDeflate: process.argv.includes('--compress') });
let left = count + 1;

socket.on('message', (data) => {
	if (left-- <= count && left >= 0) {
		writeSync(1, Buffer.concat([data, Buffer.from('\n')]));
	}
	if (left === 0) {
		socket.close(1000);
	}
});
socket.on('error', (error) => {
	console.error(JSON.stringify({ error: error.message }));
	process.exit(1);
});
socket.on('close', (code, reason) => {
	if (left > 0) {
		console.error(JSON.stringify({ code, reason: reason.toString() }));
	}
	process.exit(left > 0 ? 1 : 0);
});
