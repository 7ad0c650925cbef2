// The official suite against DS_URL; DS_SUBSCRIPTIONS=1 for its subscription tests as well.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

const options = { baseUrl: process.env.DS_URL, longPollTimeoutMs: 500 }
if (process.env.DS_SUBSCRIPTIONS === "1") {
	options.subscriptions = true
}
runConformanceTests(options)
