#include "runtime/library_format.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "cinn_like/base/hash.h"
#include "cinn_like/base/host_cpu.h"
#include "cinn_like/base/json.h"
#include "cinn_like/base/words.h"
#include "runtime/artifact.h"

namespace cinn_like {
namespace {

constexpr char kOwner[] = "cinn_like\0\0";  // padded to words
static_assert(sizeof(kOwner) == 12);
constexpr size_t kOwnerSize = 10;  // with its end
constexpr char kKey[] = "library";
constexpr int kMostArguments = 1 << 24;
constexpr int64_t kMostBytes = int64_t{1} << 40;

Status Bad(std::string_view what) { return absl::DataLossError(std::string(what)); }

std::string Lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string Join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += Cat(text.empty() ? "" : ", ", name);
  return text;
}

// Lines: target, device, features, code, prepare, "slots pointers block", "number bytes" of each set of kernels.
std::string Encode(const LibraryVariant& v) {
  std::string text = Lines({v.target, v.device, JoinWords(v.cpu_features), v.symbol, v.prepare,
                            Cat(v.slots, " ", v.pointers, " ", v.weights_block)});
  for (const LibraryKernels& k : v.kernels) text += Cat(k.number, " ", k.bytes, "\n");
  return text;
}

StatusOr<LibraryVariant> DecodeVariant(std::string_view text, const std::string* weights, const std::string* plan,
                                       const LibraryFunction& f) {
  const Status bad = Bad(Cat("a variant of function '", f.name, "' is described as '", text, "'"));
  const std::vector<std::string> lines = Words(text, '\n').TakeAll();
  if (lines.size() < 6) return bad;
  LibraryVariant v{lines[0], lines[1], Words(lines[2]).TakeAll(), lines[3], lines[4], 0, -1, {}, 0};
  if (std::count(v.cpu_features.begin(), v.cpu_features.end(), "") > 0) return bad;
  Words numbers(lines[5]);
  if (!numbers.TakeNumber(&v.slots, 0, kMostArguments) || !numbers.TakeNumber(&v.pointers, -1, kMostArguments) ||
      !numbers.TakeNumber(&v.weights_block, 0, kMostArguments) || !numbers.is_done()) {
    return bad;
  }
  for (size_t i = 6; i < lines.size(); ++i) {
    Words words(lines[i]);
    LibraryKernels& k = v.kernels.emplace_back();
    if (!words.TakeNumber(&k.number, 0, kMostArguments) || !words.TakeNumber(&k.bytes, 0, kMostBytes) ||
        !words.is_done())
      return bad;
  }
  if ((v.pointers < 0) != v.kernels.empty()) return bad;
  if (plan != nullptr) {
    ASSIGN_OR_RETURN(v.plan, PartsPlan::Decode(*plan));
    if (v.plan->params.size() != static_cast<size_t>(f.params) || v.plan->results != f.results ||
        std::any_of(v.plan->parts.begin(), v.plan->parts.end(), [&](const PartsPlan::Part& p) {
          return std::any_of(p.statics.begin(), p.statics.end(),
                             [&](int at) { return !f.statics.empty() && static_cast<size_t>(at) >= f.statics.size(); });
        })) {
      return Bad(Cat("function '", f.name, "' and its parts differ"));
    }
  }
  if (weights == nullptr) return v;
  ASSIGN_OR_RETURN(v.weights, LibraryWeights::Decode(*weights));
  const bool is_prepared = v.prepare.empty();
  const auto& params = v.weights->params;
  if (v.weights->NumGiven() != f.params ||
      v.weights->slots.size() != (is_prepared ? static_cast<size_t>(v.slots) : 0) ||
      std::any_of(params.begin(), params.end(), [&](const WeightedParam& p) {
        return p.kind == (is_prepared ? WeightedParam::Kind::kRaw : WeightedParam::Kind::kPacked);
      })) {
    return Bad(Cat("function '", f.name, "' has ", v.weights->slots.size(), " of ", v.slots, " slots, ",
                   v.weights->NumGiven(), " of ", f.params, " parameters"));
  }
  return v;
}

StatusOr<LibraryInfo> Decode(std::string_view bytes) {
  ASSIGN_OR_RETURN(const Artifact artifact, Artifact::Decode(bytes, kKey));
  LibraryInfo info;
  if (const std::string* compiler = artifact.Find("compiler")) info.compiler = *compiler;
  while (const std::string* text = artifact.Find(Cat("function.", info.functions.size()))) {
    const std::string number = Cat(info.functions.size());
    const std::vector<std::string> lines = Words(*text, '\n').TakeAll();
    if (lines.size() != 7) return Bad("a function's description is incomplete");
    LibraryFunction& f = info.functions.emplace_back(LibraryFunction{lines[0], lines[1], lines[2], 0, 0, {}, {}});
    f.is_part = lines[6] == "part";
    if (!Words(lines[3]).TakeNumber(&f.params, 0, kMostArguments) ||
        !Words(lines[4]).TakeNumber(&f.results, 0, kMostArguments))
      return Bad(Cat("function '", f.name, "' has '", lines[3], "' parameters, '", lines[4], "' results"));
    if (!Words(lines[5]).TakeNumbers(&f.statics, 0, f.params - 1))
      return Bad(Cat("function '", f.name, "' has '", lines[5], "' for static parameters"));
    while (const std::string* variant = artifact.Find(Cat("variant.", number, ".", f.variants.size()))) {
      const std::string* weights = artifact.Find(Cat("weights.", number, ".", f.variants.size()));
      const std::string* plan = artifact.Find(Cat("parts.", number, ".", f.variants.size()));
      ASSIGN_OR_RETURN(LibraryVariant v, DecodeVariant(*variant, weights, plan, f));
      f.variants.push_back(std::move(v));
    }
    if (f.variants.empty()) return Bad(Cat("function '", f.name, "' is compiled for no target"));
  }
  return info;
}

// Where the note lies in a file, and what of it the checksum is of.
struct Layout {
  size_t note = 0, note_size = 0, checksum = 0;  // `checksum` is in the note's contents, which end with the note
  uint32_t format = 0;
  size_t headers_end = 0;
  std::vector<std::pair<size_t, size_t>> loaded;  // offset and size
};

// The next note at `at`; both are moved behind it. Nothing where it does not end before `end`.
struct Note {
  size_t begin, contents, end;
  uint32_t type;
  std::string_view owner;
};
std::optional<Note> NextNote(std::string_view file, size_t& at, size_t end, size_t alignment) {
  Elf64_Nhdr header;
  if (end - at < sizeof(header)) return std::nullopt;
  memcpy(&header, file.data() + at, sizeof(header));
  const auto pad = [&](size_t n) { return (n + alignment - 1) / alignment * alignment; };
  const size_t owner = at + sizeof(header), owner_size = pad(header.n_namesz), size = header.n_descsz;
  if (owner_size > end - owner || size > end - owner - owner_size) return std::nullopt;
  const size_t contents = owner + owner_size;
  const Note note{at, contents, contents + size, header.n_type, file.substr(owner, header.n_namesz)};
  at = std::min(end, contents + pad(size));
  return note;
}

StatusOr<Layout> FindNote(std::string_view file) {
  Elf64_Ehdr header;
  if (file.size() < SELFMAG || memcmp(file.data(), ELFMAG, SELFMAG) != 0) return Bad("is no ELF file");
  if (file.size() < sizeof(header)) return Bad("is cut short");
  memcpy(&header, file.data(), sizeof(header));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != EM_X86_64) {
    return absl::FailedPreconditionError("is for another machine than x86_64");
  }
  if (header.e_type != ET_DYN) return Bad("is no shared library");
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > file.size() ||
      header.e_phnum > (file.size() - header.e_phoff) / sizeof(Elf64_Phdr)) {
    return Bad("is cut short");
  }
  if (header.e_shoff != 0 && (header.e_shoff > file.size() || header.e_shentsize != sizeof(Elf64_Shdr) ||
                              header.e_shnum > (file.size() - header.e_shoff) / sizeof(Elf64_Shdr))) {
    return Bad("is cut short");
  }
  Layout layout;
  layout.headers_end = header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr);
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    memcpy(&segment, file.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_type != PT_LOAD && segment.p_type != PT_NOTE) continue;
    if (segment.p_offset > file.size() || segment.p_filesz > file.size() - segment.p_offset) return Bad("is cut short");
    if (segment.p_type == PT_LOAD) layout.loaded.emplace_back(segment.p_offset, segment.p_filesz);
    if (segment.p_type == PT_LOAD || layout.note_size != 0) continue;
    size_t at = segment.p_offset;
    const size_t end = segment.p_offset + segment.p_filesz;
    while (const std::optional<Note> note = NextNote(file, at, end, segment.p_align == 8 ? 8 : 4)) {
      if (note->owner != std::string_view(kOwner, kOwnerSize)) continue;
      layout.note = note->begin;
      layout.note_size = note->end - note->begin;
      layout.checksum = note->contents;
      layout.format = note->type;
      break;
    }
  }
  if (layout.note_size == 0)
    return absl::InvalidArgumentError("was not written by ExportLibrary: it has no description");
  if (layout.format != kLibraryFormat) {
    return absl::FailedPreconditionError(Cat("has format ", layout.format, ", expected ", kLibraryFormat,
                                             ": export it again, or load it with its runtime"));
  }
  if (layout.note + layout.note_size - layout.checksum < sizeof(Hash128)) return Bad("has no whole description");
  return layout;
}

// Of what is loaded, but for itself and for where section headers are, which are not.
Hash128 Checksum(std::string_view file, const Layout& layout) {
  const std::pair<size_t, size_t> left_out[] = {
      {layout.checksum, sizeof(Hash128)},
      {offsetof(Elf64_Ehdr, e_shoff), sizeof(Elf64_Ehdr::e_shoff)},
      {offsetof(Elf64_Ehdr, e_shnum), sizeof(Elf64_Ehdr::e_shnum)},
      {offsetof(Elf64_Ehdr, e_shstrndx), sizeof(Elf64_Ehdr::e_shstrndx)},
  };
  const auto hash = [&](size_t begin, size_t size) {
    std::string copy;  // only of what is small: weights are elsewhere
    for (const auto& [at, count] : left_out) {
      if (at >= begin + size || at + count <= begin) continue;
      if (copy.empty()) copy = file.substr(begin, size);
      for (size_t i = std::max(at, begin); i < std::min(at + count, begin + size); ++i) copy[i - begin] = 0;
    }
    return HashBytes(copy.empty() ? file.substr(begin, size) : copy).Hex();
  };
  std::string parts = hash(0, layout.headers_end);
  for (const auto& [offset, size] : layout.loaded) parts += hash(offset, size);
  return HashBytes(parts);
}

}  // namespace

std::string LibraryInfo::Describe() const {
  std::string text = Cat("format ", kLibraryFormat, "\ncompiler ", compiler, "\n");
  for (const LibraryFunction& f : functions) {
    text += Cat(f.is_part ? "part " : "", f.signature, "\n");
    for (const LibraryVariant& v : f.variants) {
      text += Cat("  target ", v.target, "\n  cpu ", Join(v.cpu_features), "\n");
      if (v.weights) text += Cat("  weights of ", v.weights->bytes, " bytes\n");
      for (const LibraryKernels& k : v.kernels) text += Cat("  kernels of ", k.bytes, " bytes\n");
    }
  }
  return text;
}

std::string LibraryInfo::Json() const {
  std::string all;
  for (const LibraryFunction& f : functions) {
    if (f.is_part) continue;
    std::string variants;
    for (const LibraryVariant& v : f.variants) {
      std::string cpu;
      for (const std::string& name : v.cpu_features) cpu += Cat(cpu.empty() ? "" : ",", JsonString(name));
      variants += Cat(variants.empty() ? "" : ",", "{\"target\":", JsonString(v.target),
                      ",\"device\":", JsonString(v.device), ",\"cpu\":[", cpu, "]}");
    }
    all += Cat(all.empty() ? "" : ",", "{", f.interface, ",\"variants\":[", variants, "]}");
  }
  return Cat("{\"compiler\":", JsonString(compiler), ",\"functions\":[", all, "]}");
}

std::string EncodeLibraryNote(const LibraryInfo& info) {
  Artifact artifact;
  artifact.sections["compiler"] = info.compiler;
  for (size_t i = 0; i < info.functions.size(); ++i) {
    const LibraryFunction& f = info.functions[i];
    artifact.sections[Cat("function.", i)] = Lines({f.name, f.signature, f.interface, Cat(f.params), Cat(f.results),
                                                    JoinWords(f.statics), f.is_part ? "part" : ""});
    for (size_t j = 0; j < f.variants.size(); ++j) {
      const LibraryVariant& v = f.variants[j];
      artifact.sections[Cat("variant.", i, ".", j)] = Encode(v);
      if (v.weights) artifact.sections[Cat("weights.", i, ".", j)] = v.weights->Encode();
      if (v.plan) artifact.sections[Cat("parts.", i, ".", j)] = v.plan->Encode();
    }
  }
  const std::string contents = std::string(sizeof(Hash128), '\0') + artifact.Encode(kKey);
  const Elf64_Nhdr header{kOwnerSize, static_cast<Elf64_Word>(contents.size()), kLibraryFormat};
  const std::string padding((sizeof(Elf64_Word) - contents.size() % sizeof(Elf64_Word)) % sizeof(Elf64_Word), '\0');
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + std::string(kOwner, sizeof(kOwner)) +
         contents + padding;
}

Status SealLibrary(std::string& file) {
  ASSIGN_OR_RETURN(const Layout layout, FindNote(file));
  const Hash128 checksum = Checksum(file, layout);
  memcpy(&file[layout.checksum], &checksum, sizeof(checksum));
  return absl::OkStatus();
}

StatusOr<LibraryFile> ReadLibrary(std::string_view file) {
  ASSIGN_OR_RETURN(const Layout layout, FindNote(file));
  Hash128 checksum;
  memcpy(&checksum, file.data() + layout.checksum, sizeof(checksum));
  if (checksum != Checksum(file, layout)) return Bad("is damaged: it does not match its checksum");
  LibraryFile r;
  r.note = file.substr(layout.note, layout.note_size);
  const size_t artifact = layout.checksum + sizeof(Hash128);
  ASSIGN_OR_RETURN(r.info, Decode(file.substr(artifact, layout.note + layout.note_size - artifact)));
  return r;
}

Status CheckCpu(const std::vector<std::string>& features) {
  std::vector<std::string> missing, present;
  for (const CpuFeature& f : CpuFeatures()) {
    if (f.is_present) present.emplace_back(f.name);
  }
  for (const std::string& f : features) {
    if (std::find(present.begin(), present.end(), f) == present.end()) missing.push_back(f);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(Cat("needs ", Join(missing), "; this CPU has ", Join(present)));
}

}  // namespace cinn_like
