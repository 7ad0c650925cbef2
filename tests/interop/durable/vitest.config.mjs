import { defineConfig } from "vitest/config"

export default defineConfig({
	cacheDir: ".vitest",
	test: { include: ["*.test.mjs"], testTimeout: 30000, hookTimeout: 30000 },
})
