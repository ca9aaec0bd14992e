// What a graph of the mock holds that is being captured; null if none is. Inline variables are one for all libraries.
#pragma once
#include <functional>
#include <vector>

using Captured = std::vector<std::function<int()>>;
inline Captured* captured;
// A call that becomes part of the graph.
#define CAPTURED(call) \
  if (captured) return captured->push_back([=] { return call; }), 0
