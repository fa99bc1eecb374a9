// Questions about a DLTensor: its size, its strides, its description for messages.
#pragma once
#include <dlpack/dlpack.h>

#include <cstdint>
#include <string>

namespace cinn_like {

// The data with byte_offset applied.
inline void* DataOf(const DLTensor& t) { return static_cast<char*>(t.data) + t.byte_offset; }

// Product of the dimensions (1 for 0-d), or -1 where it does not fit in 64 bits or a dimension is negative.
int64_t NumElements(const DLTensor& t);
// Bytes of a contiguous tensor of this shape and dtype, or -1 as above.
int64_t NumBytes(const DLTensor& t);
// Of memory, from the first element to the last, or -1 as above or where a stride is negative.
int64_t SpanBytes(const DLTensor& t);
// Row-major and compact; dimensions of size 1 and tensors without elements may have any strides.
bool IsContiguous(const DLTensor& t);

std::string Describe(DLDevice device);    // "cpu", "cuda:1"
std::string Describe(DLDataType dtype);   // "f32", or "dlpack(code 5, 64 bits, 1 lanes)" where we have none
std::string Describe(const DLTensor& t);  // "f32[2,3] strides [1,2] on cuda:1"

}  // namespace cinn_like
