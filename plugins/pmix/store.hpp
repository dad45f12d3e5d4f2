// SPDX-License-Identifier: Apache-2.0
//
// What processes publish for others to look up. A key is unique in its range. Each node has all of it: what is done to it is done on
// all nodes in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "info.hpp"

namespace nacre::pmix {

class Store {
 public:
  using Found = std::function<void(pmix_status_t status, std::vector<pmix_pdata_t>& data)>;

  // The values and, among them, the directives: PMIX_RANGE, PMIX_PERSISTENCE. PMIX_ERR_DUPLICATE_KEY leaves the store
  // as it was.
  pmix_status_t publish(const pmix_proc_t& publisher, const InfoList& info);
  // Of its own keys, all if none is named.
  void unpublish(const pmix_proc_t& publisher, const std::vector<std::string>& keys, const InfoList& directives);

  // Calls `found` at once, or when all (PMIX_WAIT=n: n) of the keys are there. `request`: a number that no other has.
  void look_up(std::uint64_t request, const pmix_proc_t& who, std::vector<std::string> keys,
               const InfoList& directives, Found found);
  void give_up(std::uint64_t request, pmix_status_t status);  // nothing if it has been answered

  void process_ended(const pmix_proc_t& process);  // what was to stay as long as the process, and its requests
  void namespace_ended(const std::string& nspace);

 private:
  struct Item {
    std::string key;
    InfoList value;  // one
    pmix_proc_t publisher;
    pmix_data_range_t range;
    pmix_persistence_t persistence;
  };
  struct Request {
    std::uint64_t number;
    pmix_proc_t who;
    std::vector<std::string> keys;
    pmix_data_range_t range;  // PMIX_RANGE_UNDEF: any
    std::size_t wanted;
    Found found;
  };

  static bool visible(const Item& item, const pmix_proc_t& who, pmix_data_range_t range);
  std::vector<Item*> matches(const Request& request);
  void answer(const Request& request, const std::vector<Item*>& items);
  void retry();

  std::list<Item> items_;
  std::list<Request> waiting_;
};

}  // namespace nacre::pmix
