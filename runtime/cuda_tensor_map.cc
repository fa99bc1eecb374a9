#include <algorithm>
#include <array>

#include "absl/strings/str_join.h"
#include "cinn_like/base/tensor.h"
#include "runtime/cuda_driver.h"
#include "runtime/cuda_module.h"

namespace cinn_like {
namespace {

// What an instruction of matrix units finds together (backends/wgmma_printer.h): 8 rows of 64 elements.
constexpr int64_t kLine = 64, kGroup = 8;
constexpr size_t kMostRank = TensorMapSpec::kMostRank;

}  // namespace

Status MakeCudaTensorMap(void* map, DType dtype, const TensorMapSpec& spec, const CinnCallEnv& env) {
  // Of an empty tensor nothing is copied, and the driver takes none.
  if (std::find(spec.extents.begin(), spec.extents.end(), 0) != spec.extents.end()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::GetDriver());
  struct Side {
    int64_t extent, stride, box;
  };
  std::vector<Side> sides;
  for (size_t d = 0; d < spec.extents.size(); ++d) sides.push_back({spec.extents[d], spec.strides[d], spec.box[d]});
  const std::string what = Cat("a map of ", Name(dtype), " ", absl::StrJoin(spec.extents, "x"), " in boxes of ",
                               absl::StrJoin(spec.box, "x"));
  if (!IsHalf(dtype) || sides.size() < 2) return InvalidArgument(what, ": expected rows of 16-bit floats");
  // A box of several lines a row arrives by groups of rows, line by line: both are dimensions of their own.
  if (sides[0].box > kLine) {
    const Side columns = sides[0], rows = sides[1];
    sides[0] = {kLine, 1, kLine};
    sides[1] = {kGroup, rows.stride, kGroup};
    sides.insert(sides.begin() + 2, {{columns.extent / kLine, kLine, columns.box / kLine},
                                     {rows.extent / kGroup, rows.stride * kGroup, rows.box / kGroup}});
  }
  if (sides.size() > kMostRank) return InvalidArgument(what, ": more than ", kMostRank, " dimensions");
  std::array<uint64_t, kMostRank> extents{}, strides{};
  std::array<unsigned, kMostRank> box{}, steps{};
  for (size_t d = 0; d < sides.size(); ++d) {
    extents[d] = static_cast<uint64_t>(sides[d].extent);
    if (d > 0) strides[d - 1] = static_cast<uint64_t>(sides[d].stride * BytesOf(dtype));
    box[d] = static_cast<unsigned>(sides[d].box), steps[d] = 1;
  }
  return driver->Check(
      driver->cuTensorMapEncodeTiled(map, dtype == DType::kF16 ? cuda::kTensorF16 : cuda::kTensorBf16,
                                     static_cast<unsigned>(sides.size()), spec.address, extents.data(), strides.data(),
                                     box.data(), steps.data(), 0, cuda::kSwizzle128Bytes, cuda::kPromote256Bytes, 0),
      Cat(Describe(env.device), ": ", what));
}

}  // namespace cinn_like
