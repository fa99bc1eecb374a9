// Attributes of an op: a value per name. An op of a Graph holds a value for every attribute that its OpDef declares
// (defaults filled in), each of the declared type, so readers ask by name and can't fail.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cinn_like/base/dtype.h"
#include "hlir/dim.h"

namespace cinn_like::hlir {

// kInt: a constant; kDim: may hold symbols; kNumber: a dimension or a float (integers stay exact); kInts, kDims: lists.
enum class AttrType : uint8_t { kInt, kDim, kNumber, kFloat, kBool, kString, kDType, kInts, kDims };

// "an integer", "a list of dimensions", ... for messages.
std::string_view DescribeAttrType(AttrType t);

// kInt and kDim are Dim; kNumber is Dim if integral or symbolic, else double; kInts and kDims are Dims.
using Attr = std::variant<Dim, double, bool, std::string, DType, Dims>;

std::string ToString(const Attr& attr);

struct AttrSpec {
  std::string name;
  AttrType type;
  std::optional<Attr> default_value;      // required where there is none
  std::vector<std::string> choices = {};  // of a string
};

// Immutable, so copies share the values.
class Attrs {
 public:
  using Values = std::map<std::string, Attr>;

  Attrs() : values_(std::make_shared<const Values>()) {}
  Attrs(std::initializer_list<Values::value_type> values) : values_(std::make_shared<const Values>(values)) {}
  explicit Attrs(Values values) : values_(std::make_shared<const Values>(std::move(values))) {}

  const Attr* Find(const std::string& name) const;
  const Values& values() const { return *values_; }

  int64_t Int(const std::string& name) const;
  Dim AsDim(const std::string& name) const;
  double Float(const std::string& name) const;
  const Attr& Number(const std::string& name) const;  // of a kNumber: Dim or double
  bool Bool(const std::string& name) const;
  const std::string& String(const std::string& name) const;
  DType AsDType(const std::string& name) const;
  std::vector<int64_t> Ints(const std::string& name) const;
  const Dims& AsDims(const std::string& name) const;

  friend bool operator==(const Attrs& a, const Attrs& b);

 private:
  std::shared_ptr<const Values> values_;
};

// `value` as an attribute declared by `spec` (an integer literal given for a float becomes one, ...), or an error that
// says what was expected.
StatusOr<Attr> CoerceAttr(const AttrSpec& spec, Attr value);
// The value of a spec in text: after `name=`.
StatusOr<Attr> ParseAttr(const AttrSpec& spec, Lexer* lexer);

}  // namespace cinn_like::hlir
