// Bytes by key, kept between compilations: host objects, device images.
#pragma once
#include <optional>
#include <string>

namespace cinn_like {

class ObjectCache {
 public:
  virtual ~ObjectCache() = default;
  // Called from several threads. The key holds all that the bytes depend on.
  virtual std::optional<std::string> Get(const std::string& key) = 0;
  virtual void Put(const std::string& key, const std::string& object) = 0;
};

}  // namespace cinn_like
