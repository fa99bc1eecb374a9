#include "runtime/library_weights.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "cinn_like/base/tensor.h"
#include "cinn_like/base/words.h"
#include "runtime/arg_spec.h"

namespace cinn_like {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

bool Read(Words& words, WeightPiece* p) {
  return words.TakeNumber(&p->offset, 0, kMost) && words.TakeNumber(&p->bytes, 0, kMost);
}

bool IsIn(const WeightPiece& piece, int64_t bytes) {
  return piece.offset >= 0 && piece.offset % kWeightAlignment == 0 && piece.bytes >= 0 && piece.offset <= bytes &&
         piece.bytes <= bytes - piece.offset;
}

bool ReadWeight(Words& words, int64_t bytes, WeightedParam* p) {
  const std::optional<DType> dtype = ParseDType(words.Take());
  size_t rank = 0;
  if (!dtype.has_value() || !Read(words, &p->data) || !IsIn(p->data, bytes) || !words.TakeNumber(&rank, 0, kMaxRank))
    return false;
  p->dtype = *dtype;
  p->shape.resize(rank), p->strides.resize(rank);
  for (std::vector<int64_t>* numbers : {&p->shape, &p->strides}) {
    for (int64_t& n : *numbers) {
      if (!words.TakeNumber(&n, 0, kMost)) return false;
    }
  }
  DLTensor t{};
  t.dtype = {InfoOf(*dtype).dlpack_code, static_cast<uint8_t>(InfoOf(*dtype).bits), 1};
  t.ndim = static_cast<int32_t>(rank);
  t.shape = p->shape.data();
  t.strides = p->strides.data();
  return SpanBytes(t) == p->data.bytes;
}

bool ReadLine(std::string_view line, LibraryWeights* r) {
  Words words(line);
  const std::string_view kind = words.Take();
  bool is_right = true;
  if (kind == "slot") {
    WeightPiece& slot = r->slots.emplace_back();
    is_right = Read(words, &slot) && IsIn(slot, r->bytes);
  } else if (kind == "given" || kind == "packed") {
    r->params.emplace_back().kind = kind == "given" ? WeightedParam::Kind::kGiven : WeightedParam::Kind::kPacked;
  } else if (kind == "weight" || kind == "raw") {
    r->params.emplace_back().kind = kind == "raw" ? WeightedParam::Kind::kRaw : WeightedParam::Kind::kWeight;
    is_right = ReadWeight(words, r->bytes, &r->params.back());
  } else {
    return false;
  }
  return is_right && words.is_done();
}

}  // namespace

int LibraryWeights::NumGiven() const {
  return static_cast<int>(std::count_if(params.begin(), params.end(),
                                        [](const WeightedParam& p) { return p.kind == WeightedParam::Kind::kGiven; }));
}

std::string LibraryWeights::Encode() const {
  std::string text = Cat("weights ", bytes, "\n");
  for (const WeightPiece& s : slots) text += Cat("slot ", s.offset, " ", s.bytes, "\n");
  for (const WeightedParam& p : params) {
    switch (p.kind) {
      case WeightedParam::Kind::kGiven:
        text += "given\n";
        break;
      case WeightedParam::Kind::kPacked:
        text += "packed\n";
        break;
      case WeightedParam::Kind::kWeight:
      case WeightedParam::Kind::kRaw:
        text += Cat(p.kind == WeightedParam::Kind::kRaw ? "raw " : "weight ", Name(p.dtype), " ", p.data.offset, " ",
                    p.data.bytes, " ", p.shape.size(), p.shape.empty() ? "" : " ", JoinWords(p.shape),
                    p.shape.empty() ? "" : " ", JoinWords(p.strides), "\n");
        break;
    }
  }
  return text;
}

StatusOr<LibraryWeights> LibraryWeights::Decode(std::string_view text) {
  LibraryWeights r;
  bool is_first = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    Words words(line);
    bool is_right = false;
    if (is_first) {
      is_right = words.Take() == "weights";
      is_right = is_right && words.TakeNumber(&r.bytes, 0, kMost) && words.is_done();
    } else {
      is_right = ReadLine(line, &r);
    }
    if (!is_right) return absl::DataLossError(Cat("weights are described as '", line, "'"));
    is_first = false;
  }
  if (is_first) return absl::DataLossError("weights are not described");
  return r;
}

}  // namespace cinn_like
