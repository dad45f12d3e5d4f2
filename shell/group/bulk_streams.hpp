// SPDX-License-Identifier: Apache-2.0
//
// The bulk streams of the links of a shell, as BulkDriver writes them.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.hpp"
#include "bulk/options.hpp"
#include "value/link.hpp"

namespace nacre::group {

class BulkStreams {
 public:
  virtual ~BulkStreams() = default;
  // As transport::Link; nothing is taken where there is no link.
  virtual std::size_t write(value::LinkName to, bulk::StreamId stream, std::string_view bytes) = 0;
  virtual Result<void> grant(value::LinkName to, bulk::StreamId stream, std::size_t bytes) = 0;
};

}  // namespace nacre::group
