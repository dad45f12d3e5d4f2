// SPDX-License-Identifier: Apache-2.0
//
// What a client is answered to one call of PMIx_Query_info: what libpmix cannot answer itself. Other shells may
// have to be asked; the answer is sent once the last of them has answered, or is given up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "clients.hpp"
#include "flux.hpp"
#include "info.hpp"
#include "peers.hpp"

namespace nacre::pmix {

struct ClientQuery {
  std::vector<std::string> keys;
  InfoList qualifiers;
};

// Is held by shared pointers: `peers` has one while other shells are asked.
class QueryAnswer : public std::enable_shared_from_this<QueryAnswer> {
 public:
  // `lost`: the shells that are. All but the reply have to outlive this object.
  QueryAnswer(flux_shell_t* shell, const Clients& clients, Peers& peers, const std::set<std::uint32_t>& lost,
              InfoReply reply)
      : shell_(shell), clients_(clients), peers_(peers), lost_(lost), reply_(reply) {}

  // Other shells have so many seconds to answer. To be called once.
  void find(const std::vector<ClientQuery>& queries, double seconds);

 private:
  bool find_key(const std::string& key, const InfoList& qualifiers, double seconds);
  bool add_time_remaining();
  void add_namespaces();
  void add_table(const char* key, const std::string& nspace, ProcessTables::Rows rows);
  [[nodiscard]] pmix_proc_state_t state_from_afar(Rank number) const;
  void close();

  flux_shell_t* shell_;
  const Clients& clients_;
  Peers& peers_;
  const std::set<std::uint32_t>& lost_;
  InfoReply reply_;
  InfoList results_;
  std::size_t keys_ = 0, found_ = 0;
  std::size_t open_ = 1;  // so much is still to come
};

}  // namespace nacre::pmix
