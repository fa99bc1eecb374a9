// Addresses of OpenCL's memory. A cl_mem is a handle: it can't be added to, and generated code adds offsets (into a
// workspace, a view). So each memory object gets a range of addresses that nothing else in the process has, reserved
// without memory behind it, and launches and copies turn an address in it back into the object and an offset, of which
// a kernel gets both (Dialect::offset_pointers). It needs nothing that a device of OpenCL 1.2 has not: no shared
// virtual memory, no sub-buffers, which begin at multiples of some number alone.
//
//   cl_mem of 4096 bytes, byte_offset 256  ->  address 0x7f..100  ->  clSetKernelArg(cl_mem), clSetKernelArg(256)
//
// What a framework hands over as DLTensor.data is a cl_mem, or an address from here.
#pragma once
#include <dlpack/dlpack.h>

#include <cstdint>

#include "cinn_like/base/status.h"

namespace cinn_like::opencl {

struct Place {
  struct MemImpl* memory = nullptr;       // a cl_mem
  struct ContextImpl* context = nullptr;  // that it belongs to
  int64_t offset = 0;
};

// Of a memory object of `bytes`, until RemoveAddress.
StatusOr<void*> AddAddress(struct MemImpl* memory, struct ContextImpl* context, int64_t bytes);
// The object whose first address this is; the caller releases it. Null: there is none.
struct MemImpl* RemoveAddress(void* address);
// False: it is an address of the host.
bool FindPlace(const void* address, Place* place);
// RuntimeDevice::address. A framework's memory object has its addresses until it goes.
void* AddressOf(const DLTensor& tensor);

}  // namespace cinn_like::opencl
