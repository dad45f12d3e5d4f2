// SPDX-License-Identifier: Apache-2.0
//
// The names that processes publish (MPI_Publish_name) in a job of several shells: what is published on one of them,
// or no more, is so on all.
#pragma once

#include <string_view>

#include "plugin/host.hpp"
#include "pmi/kvs.hpp"

namespace nacre::plugins {

// From now on changes of `names` by processes of this shell are announced. All have to outlive `names`' use.
void announce_names(plugin::Host& host, const plugin::Plugin& plugin, pmi::Names& names);

// Takes an announcement of another shell's change; any other is passed over.
void take_announced_name(plugin::Host& host, const plugin::Plugin& plugin, pmi::Names& names,
                         std::string_view topic, std::string_view bytes);

}  // namespace nacre::plugins
