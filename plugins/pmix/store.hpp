// SPDX-License-Identifier: Apache-2.0
//
// What processes publish for others to look up. A key is unique in its range. Each node has all of it, as all nodes
// perform the same operations in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "info.hpp"

namespace nacre::pmix {

class PublishedData {
 public:
  using Found = std::function<void(pmix_status_t status, std::vector<pmix_pdata_t>& data)>;

  // `info`: the values and, among them, the directives PMIX_RANGE and PMIX_PERSISTENCE. PMIX_ERR_DUPLICATE_KEY: the
  // store is not changed.
  pmix_status_t publish(const pmix_proc_t& publisher, const InfoList& info);
  // Removes its own keys, all of them if none is named.
  void unpublish(const pmix_proc_t& publisher, const std::vector<std::string>& keys, const InfoList& directives);

  // Calls `found` at once, or when all of the keys (with PMIX_WAIT=n: n of them) are there. `request`: a number
  // that no other has.
  void look_up(std::uint64_t request, const pmix_proc_t& id, std::vector<std::string> keys,
               const InfoList& directives, Found found);
  void give_up(std::uint64_t request, pmix_status_t status);  // ignored if it has been answered

  // Removes what was to stay as long as the process, and its requests
  void process_ended(const pmix_proc_t& process);
  void namespace_ended(const std::string& nspace);

 private:
  struct Item {
    std::string key;
    InfoList value;  // one element
    pmix_proc_t publisher;
    pmix_data_range_t range;
    pmix_persistence_t persistence;
  };
  struct Request {
    std::uint64_t number;
    pmix_proc_t id;
    std::vector<std::string> keys;
    pmix_data_range_t range;  // preferred: what Open MPI 5.0 gives, if it is not told one, has no meaning
    std::size_t wanted;
    Found found;
  };

  static bool visible(const Item& item, const pmix_proc_t& id);
  std::vector<Item*> matches(const Request& request);
  void answer(const Request& request, const std::vector<Item*>& items);
  void retry();

  std::list<Item> items_;
  std::list<Request> waiting_;
};

}  // namespace nacre::pmix
