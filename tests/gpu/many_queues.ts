/**
 * Several ranks on one GPU need a queue of it for each of their streams: where two streams share one, what waits in it for
 * another rank holds up what that rank waits for. Imported before what opens CUDA, which reads this once.
 */
Deno.env.set("CUDA_DEVICE_MAX_CONNECTIONS", "32");
