#include "runtime/artifact.h"

#include <cstdint>
#include <cstring>

#include "cinn_like/base/hash.h"

namespace cinn_like {
namespace {

constexpr char kMagic[8] = {'C', 'I', 'N', 'N', 'L', 'I', 'K', 'E'};
constexpr uint32_t kVersion = 2;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t sections;
  uint64_t size;  // of what follows the header
  Hash128 checksum;
};
static_assert(sizeof(Header) == 40);
struct SectionHeader {
  uint32_t name_size;
  uint32_t zero;
  uint64_t size;
};
static_assert(sizeof(SectionHeader) == 16);

template <class T>
void Append(std::string& out, const T& v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof(v));
}

Status Bad(std::string_view what) { return absl::DataLossError(Cat("artifact: ", what)); }

}  // namespace

const std::string* Artifact::Find(std::string_view section) const {
  auto it = sections.find(section);
  return it == sections.end() ? nullptr : &it->second;
}

std::string Artifact::Encode(std::string_view key) const {
  std::string body;
  Append(body, uint64_t{key.size()});
  body += key;
  for (const auto& [name, bytes] : sections) {
    Append(body, SectionHeader{static_cast<uint32_t>(name.size()), 0, bytes.size()});
    body += name;
    body += bytes;
  }
  Header h{{}, kVersion, static_cast<uint32_t>(sections.size()), body.size(), HashBytes(body)};
  memcpy(h.magic, kMagic, sizeof(kMagic));
  std::string r;
  r.reserve(sizeof(h) + body.size());
  Append(r, h);
  return r += body;
}

StatusOr<Artifact> Artifact::Decode(std::string_view bytes, std::string_view key) {
  Header h;
  if (bytes.size() < sizeof(h)) return Bad("cut short");
  memcpy(&h, bytes.data(), sizeof(h));
  bytes.remove_prefix(sizeof(h));
  if (memcmp(h.magic, kMagic, sizeof(kMagic)) != 0) return Bad("not one");
  if (h.version != kVersion) return Bad(Cat("version ", h.version, ", expected ", kVersion));
  if (h.size != bytes.size()) return Bad(Cat(bytes.size(), " bytes, expected ", h.size));
  if (h.checksum != HashBytes(bytes)) return Bad("wrong checksum");
  uint64_t key_size = 0;
  if (bytes.size() < sizeof(key_size)) return Bad("cut short");
  memcpy(&key_size, bytes.data(), sizeof(key_size));
  bytes.remove_prefix(sizeof(key_size));
  if (key_size > bytes.size()) return Bad("the key is too large");
  if (bytes.substr(0, key_size) != key) return absl::NotFoundError("artifact: for another key");
  bytes.remove_prefix(key_size);
  Artifact r;
  for (uint32_t i = 0; i < h.sections; ++i) {
    SectionHeader s;
    if (bytes.size() < sizeof(s)) return Bad("cut short");
    memcpy(&s, bytes.data(), sizeof(s));
    bytes.remove_prefix(sizeof(s));
    if (s.name_size > bytes.size() || s.size > bytes.size() - s.name_size) return Bad("a section is too large");
    r.sections.emplace(bytes.substr(0, s.name_size), bytes.substr(s.name_size, s.size));
    bytes.remove_prefix(s.name_size + s.size);
  }
  if (!bytes.empty() || r.sections.size() != h.sections) return Bad("wrong sections");
  return r;
}

}  // namespace cinn_like
