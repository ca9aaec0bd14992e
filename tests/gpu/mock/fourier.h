// What the mocks of cuFFT and cuFFTMp share: types of transforms, elements in memory, the transform by its definition.
#include <cmath>
#include <complex>
#include <cstring>
#include <map>
#include <vector>

using i64 = long long;
using u64 = unsigned long long;
using Number = std::complex<double>;
#define API extern "C" __attribute__((visibility("default")))

enum { OK = 0, INVALID_PLAN = 1, INVALID_TYPE = 3, INVALID_VALUE = 4, INVALID_SIZE = 8, NO_WORKSPACE = 13, NOT_IMPLEMENTED = 14, NOT_SUPPORTED = 16 };
// Those of half precision have no names in cufft.h: plans are told of them by the types of elements.
enum { R2C = 0x2a, C2R = 0x2c, C2C = 0x29, D2Z = 0x6a, Z2D = 0x6c, Z2Z = 0x69, NARROW_R2C = 0x1a, NARROW_C2R = 0x1c, NARROW_C2C = 0x19 };

static bool isDouble(int type) { return type >= 0x60; }
static bool isNarrow(int type) { return type < 0x20; }
static bool isHalf(int type, bool isInput) { return (type & 0xf) == (isInput ? 0xc : 0xa); }
static bool isReal(int type, bool isInput) { return isHalf(type, !isInput); }
// A real number, or a part of a complex one.
static double number(const void* data, int type, i64 at) {
  return isDouble(type) ? ((double*)data)[at] : isNarrow(type) ? (double)((_Float16*)data)[at] : ((float*)data)[at];
}
static void setNumber(void* data, int type, i64 at, double value) {
  if (isDouble(type)) ((double*)data)[at] = value;
  else if (isNarrow(type)) ((_Float16*)data)[at] = (_Float16)value;
  else ((float*)data)[at] = (float)value;
}
static Number load(const void* data, int type, bool isInput, i64 at) {
  if (isReal(type, isInput)) return number(data, type, at);
  return Number(number(data, type, 2 * at), number(data, type, 2 * at + 1));
}
static void store(void* data, int type, i64 at, Number value) {
  if (isReal(type, false)) return setNumber(data, type, at, value.real());
  setNumber(data, type, 2 * at, value.real());
  setNumber(data, type, 2 * at + 1, value.imag());
}

// The indices of element i of an array in C order.
static std::vector<i64> indicesOf(i64 i, const std::vector<i64>& n) {
  std::vector<i64> index(n.size());
  for (i64 d = n.size() - 1; d >= 0; d--) index[d] = i % n[d], i /= n[d];
  return index;
}

// Transform a whole array along all of its axes, in place.
static void transform(std::vector<Number>& whole, const std::vector<i64>& extents, int direction) {
  i64 inner = 1, total = whole.size();
  for (i64 d = extents.size() - 1; d >= 0; d--) {
    i64 n = extents[d];
    std::vector<Number> roots(n), line(n);
    for (i64 k = 0; k < n; k++) roots[k] = std::polar(1.0, direction * 2 * M_PI * k / n);
    for (i64 start = 0; start < total; start++) {
      if (start / inner % n != 0) continue;
      for (i64 k = 0; k < n; k++) {
        line[k] = 0;
        for (i64 j = 0; j < n; j++) line[k] += whole[start + j * inner] * roots[j * k % n];
      }
      for (i64 k = 0; k < n; k++) whole[start + k * inner] = line[k];
    }
    inner *= n;
  }
}
