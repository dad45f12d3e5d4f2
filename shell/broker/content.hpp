// SPDX-License-Identifier: Apache-2.0
//
// What a Flux instance keeps for its jobs besides eventlogs: the archives of flux-archive(1), and its content
// store, which has their content by its hash (Flux RFC 10). It has a connection of its own to the broker, so that a
// thread may wait for it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "broker/broker.hpp"

namespace nacre::broker {

// The bytes of a blobref, "sha1-HEX" or "sha256-HEX".
Result<std::string> hash_of(std::string_view blobref);

class ContentStore {
 public:
  static Result<ContentStore> connect(std::string_view uri);

  // The files of an archive, as file system objects (Flux RFC 37). None: there is no such archive.
  Result<std::optional<Json>> archive(const std::string& name);

  using Take = std::function<Result<void>(std::size_t index, std::string_view bytes)>;
  // Calls `take` with the content of each in their order, several being under way. It waits as long as the store
  // does, but while `goes_on` says so (it may be empty): else ECANCELED.
  Result<void> load(const std::vector<std::string>& blobrefs, const Take& take,
                    const std::function<bool()>& goes_on);

 private:
  explicit ContentStore(std::unique_ptr<Broker> broker) : broker_(std::move(broker)) {}

  std::unique_ptr<Broker> broker_;
};

}  // namespace nacre::broker
