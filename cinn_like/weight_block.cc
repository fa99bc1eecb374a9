#include "cinn_like/weight_block.h"

#include <map>

#include "cinn_like/base/hash.h"
#include "cinn_like/base/tensor.h"

namespace cinn_like {
namespace {

class Block {
 public:
  // Where the bytes lie now: equal ones are there already, of tied weights.
  WeightPiece Add(const void* data, int64_t bytes) {
    if (bytes == 0) return {};
    const std::string_view piece(static_cast<const char*>(data), static_cast<size_t>(bytes));
    const auto [known, is_new] = known_.try_emplace({HashBytes(piece), bytes}, 0);
    if (is_new) {
      bytes_.resize((bytes_.size() + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment);
      known->second = static_cast<int64_t>(bytes_.size());
      bytes_ += piece;
    }
    return {known->second, bytes};
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
  std::map<std::pair<Hash128, int64_t>, int64_t> known_;  // to offsets
};

Status CheckWeight(const hlir::TensorType& type, const std::optional<hlir::Dims>& strides, const CinnValue& value) {
  if (value.tag != kCinnTensor || value.tensor == nullptr) return InvalidArgument("expected a tensor");
  const DLTensor& t = *value.tensor;
  bool is_right = t.dtype.code == InfoOf(type.dtype).dlpack_code && t.dtype.bits == InfoOf(type.dtype).bits &&
                  t.dtype.lanes == 1 && t.ndim == static_cast<int32_t>(type.dims.size()) &&
                  (t.ndim == 0 || t.shape != nullptr);
  int64_t step = 1;
  for (int32_t d = t.ndim; is_right && d-- > 0;) {
    const int64_t size = type.dims[d].AsConst().value_or(t.shape[d]);
    const int64_t expected = strides.has_value() ? (*strides)[d].AsConst().value_or(-1) : step;
    const int64_t stride = t.strides == nullptr ? step : t.strides[d];
    is_right = t.shape[d] == size && (size == 1 || expected == -1 || stride == expected);
    is_right = is_right && !__builtin_mul_overflow(step, size, &step);
  }
  const bool is_on_host = t.device.device_type == kDLCPU || t.device.device_type == kDLCUDAHost;
  if (is_right && is_on_host && SpanBytes(t) >= 0 && (t.data != nullptr || SpanBytes(t) == 0)) return absl::OkStatus();
  const std::string how = strides.has_value() ? Cat(" strides ", ToString(*strides)) : "";
  return InvalidArgument("expected ", type.ToString(), how, " on the host, got ", Describe(t));
}

}  // namespace

Status CheckWeights(const hlir::Graph& graph, std::span<const CinnValue> weights) {
  size_t next = 0;
  for (const hlir::Param& p : graph.params()) {
    if (p.role != hlir::ParamRole::kStatic) continue;
    if (next < weights.size()) {
      RETURN_IF_ERROR(
          Annotate(CheckWeight(graph.TypeOf(p.value), p.strides, weights[next]), Cat("weight '", p.name, "'")));
    }
    ++next;
  }
  if (next == weights.size()) return absl::OkStatus();
  return InvalidArgument("expected ", next, " weights, one for each static parameter, got ", weights.size());
}

WeightBlock MakeWeightBlock(const hlir::Graph& graph, const ir::Func& entry, const PreparedState* prepared,
                            std::span<const CinnValue> weights) {
  Block block;
  WeightBlock r;
  for (int slot = 0; prepared != nullptr && slot < prepared->num_slots(); ++slot) {
    r.description.slots.push_back(block.Add(prepared->data(slot), prepared->bytes(slot)));
  }
  auto read = entry.params.begin();
  for (const hlir::Param& p : graph.params()) {
    while (read->role == ir::ParamRole::kPrepared) ++read;
    const bool is_packed = (read++)->role == ir::ParamRole::kStatic;
    WeightedParam& param = r.description.params.emplace_back();
    if (p.role != hlir::ParamRole::kStatic) continue;
    const DLTensor& t = *weights.front().tensor;
    weights = weights.subspan(1);
    using Kind = WeightedParam::Kind;
    param.kind = !is_packed ? Kind::kWeight : prepared != nullptr ? Kind::kPacked : Kind::kRaw;
    if (param.kind == Kind::kPacked) continue;
    param.dtype = graph.TypeOf(p.value).dtype;
    param.shape.assign(t.shape, t.shape + t.ndim);
    param.strides.resize(param.shape.size());
    int64_t compact = 1;
    for (int32_t d = t.ndim; d-- > 0;) {
      param.strides[d] = t.strides != nullptr ? t.strides[d] : compact;
      compact *= t.shape[d];
    }
    param.data = block.Add(DataOf(t), SpanBytes(t));
  }
  r.bytes = block.Take();
  r.description.bytes = static_cast<int64_t>(r.bytes.size());
  return r;
}

}  // namespace cinn_like
