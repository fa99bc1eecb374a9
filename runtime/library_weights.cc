#include "runtime/library_weights.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "cinn_like/base/tensor.h"
#include "runtime/arg_spec.h"

namespace cinn_like {
namespace {

std::string Numbers(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t n : numbers) text += Cat(" ", n);
  return text;
}

// The words of a line, one after the other.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}
  bool is_done() const { return rest_.empty(); }
  std::string_view Take() {
    const size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  // -1 where it is no number, which nothing here is.
  int64_t Number() {
    const std::string_view word = Take();
    int64_t n = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    return error == std::errc() && end == word.data() + word.size() && n >= 0 ? n : -1;
  }
  bool Numbers(int64_t count, std::vector<int64_t>* to) {
    for (int64_t i = 0; i < count; ++i) to->push_back(Number());
    return std::find(to->begin(), to->end(), -1) == to->end();
  }

 private:
  std::string_view rest_;
};

bool IsIn(const WeightPiece& piece, int64_t bytes) {
  return piece.offset >= 0 && piece.offset % kWeightAlignment == 0 && piece.bytes >= 0 && piece.offset <= bytes &&
         piece.bytes <= bytes - piece.offset;
}

bool ReadWeight(Words& words, int64_t bytes, WeightedParam* p) {
  const std::optional<DType> dtype = ParseDType(words.Take());
  p->data = {words.Number(), words.Number()};
  const int64_t rank = words.Number();
  if (!dtype.has_value() || !IsIn(p->data, bytes) || rank < 0 || rank > kMaxRank) return false;
  p->dtype = *dtype;
  if (!words.Numbers(rank, &p->shape) || !words.Numbers(rank, &p->strides)) return false;
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
    slot = {words.Number(), words.Number()};
    is_right = IsIn(slot, r->bytes);
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
        text += Cat(p.kind == WeightedParam::Kind::kRaw ? "raw " : "weight ", Name(p.dtype), " ", p.data.offset, " ", p.data.bytes, " ", p.shape.size(),
                    Numbers(p.shape), Numbers(p.strides), "\n");
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
      r.bytes = words.Number();
      is_right = is_right && r.bytes >= 0 && words.is_done();
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
