#include "runtime/kernel_images.h"

#include "cinn_like/base/words.h"

namespace cinn_like {

constexpr char kKey[] = "library kernels";

void KernelImages::AddTo(Artifact& artifact) const {
  std::string table;
  for (const Kernel& k : kernels) table += Cat(k.name, " ", k.image, " ", k.entry, "\n");
  artifact.sections["kernels"] = std::move(table);
  for (size_t i = 0; i < images.size(); ++i) artifact.sections[Cat("image.", i)] = images[i];
}

StatusOr<KernelImages> KernelImages::From(const Artifact& artifact) {
  KernelImages r;
  const std::string* table = artifact.Find("kernels");
  if (table == nullptr) return absl::DataLossError("artifact: no section 'kernels'");
  while (const std::string* image = artifact.Find(Cat("image.", r.images.size()))) r.images.push_back(*image);
  for (const std::string& line : Words(*table, '\n').TakeAll()) {
    Words fields(line);
    Kernel& k = r.kernels.emplace_back();
    k.name = fields.Take();
    const bool is_image = fields.TakeNumber(&k.image, 0, static_cast<int64_t>(r.images.size()) - 1);
    k.entry = fields.Take();
    if (!is_image || k.entry.empty())
      return absl::DataLossError(Cat("artifact: bad line of section 'kernels': ", line));
  }
  return r;
}

std::string KernelImages::Encode() const {
  Artifact artifact;
  AddTo(artifact);
  return artifact.Encode(kKey);
}

StatusOr<KernelImages> KernelImages::Decode(std::string_view bytes) {
  ASSIGN_OR_RETURN(const Artifact artifact, Artifact::Decode(bytes, kKey));
  return From(artifact);
}

StatusOr<std::unique_ptr<LoadedKernels>> LoadedKernels::Load(const KernelImages& images, const RuntimeDevice& device) {
  auto r = std::make_unique<LoadedKernels>();
  for (const std::string& image : images.images) {
    ASSIGN_OR_RETURN(DeviceApi * api, device.api());
    ASSIGN_OR_RETURN(std::unique_ptr<DeviceModule> m, api->Load(image));
    r->modules_.push_back(std::move(m));
  }
  for (const KernelImages::Kernel& k : images.kernels) {
    ASSIGN_OR_RETURN(void* handle, r->modules_[k.image]->Kernel(k.entry));
    r->kernels_.emplace_back(k.name, handle);
  }
  return r;
}

StatusOr<void*> LoadedKernels::Kernel(std::string_view name) const {
  for (const auto& [n, handle] : kernels_) {
    if (n == name) return handle;
  }
  return absl::NotFoundError(Cat("no kernel '", name, "'"));
}

}  // namespace cinn_like
