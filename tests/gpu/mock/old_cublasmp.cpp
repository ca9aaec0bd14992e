// A cuBLASMp that is too old: it tells its version, and nothing else works.
extern "C" int cublasMpGetVersion(int* version) { return *version = 700, 0; }
