// SPDX-License-Identifier: Apache-2.0
#include "store.hpp"

#include <algorithm>
#include <cstring>

namespace nacre::pmix {
namespace {

bool same_namespace(const pmix_proc_t& a, const pmix_proc_t& b) {
  return std::strncmp(a.nspace, b.nspace, PMIX_MAX_NSLEN) == 0;
}

bool same(const pmix_proc_t& a, const pmix_proc_t& b) { return same_namespace(a, b) && a.rank == b.rank; }

template <typename Type>
Type directive(const InfoList& info, const char* key, Type otherwise) {
  const pmix_value_t* value = info.find(key);
  return value != nullptr ? static_cast<Type>(number_of(*value).value_or(otherwise)) : otherwise;
}

// False for what libpmix itself adds to a request, and for directives.
bool is_data(const pmix_info_t& info) {
  for (const char* key : {PMIX_RANGE, PMIX_PERSISTENCE, PMIX_USERID, PMIX_GRPID, PMIX_TIMEOUT, PMIX_WAIT,
                          PMIX_ACCESS_PERMISSIONS, PMIX_EMBED_BARRIER}) {
    if (is(info, key)) return false;
  }
  return true;
}

}  // namespace

bool PublishedData::visible(const Item& item, const pmix_proc_t& id) {
  switch (item.range) {
    case PMIX_RANGE_RM: return false;
    case PMIX_RANGE_NAMESPACE: return same_namespace(item.publisher, id);
    case PMIX_RANGE_PROC_LOCAL: return same(item.publisher, id);
    default: return true;
  }
}

pmix_status_t PublishedData::publish(const pmix_proc_t& publisher, const InfoList& info) {
  auto range = directive<pmix_data_range_t>(info, PMIX_RANGE, PMIX_RANGE_SESSION);
  auto persistence = directive<pmix_persistence_t>(info, PMIX_PERSISTENCE, PMIX_PERSIST_SESSION);
  std::list<Item> fresh;
  for (const pmix_info_t& each : info) {
    if (!is_data(each)) continue;
    Item item{each.key, InfoList(&each, 1), publisher, range, persistence};
    auto clashes = [&](const Item& other) {
      bool apart = (range == PMIX_RANGE_NAMESPACE && !same_namespace(publisher, other.publisher)) ||
                   (range == PMIX_RANGE_PROC_LOCAL && !same(publisher, other.publisher));
      return other.key == item.key && other.range == range && !apart;
    };
    if (std::any_of(items_.begin(), items_.end(), clashes)) return PMIX_ERR_DUPLICATE_KEY;
    fresh.push_back(std::move(item));
  }
  items_.splice(items_.end(), fresh);
  retry();
  return PMIX_SUCCESS;
}

void PublishedData::unpublish(const pmix_proc_t& publisher, const std::vector<std::string>& keys,
                              const InfoList& directives) {
  auto range = directive<pmix_data_range_t>(directives, PMIX_RANGE, PMIX_RANGE_UNDEF);
  items_.remove_if([&](const Item& item) {
    bool named = keys.empty() || std::find(keys.begin(), keys.end(), item.key) != keys.end();
    return named && same(item.publisher, publisher) && (range == PMIX_RANGE_UNDEF || range == item.range);
  });
}

std::vector<PublishedData::Item*> PublishedData::matches(const Request& request) {
  std::vector<Item*> found;
  for (const std::string& key : request.keys) {
    Item* match = nullptr;
    for (Item& item : items_) {
      if (item.key != key || !visible(item, request.id)) continue;
      if (match == nullptr || (match->range != request.range && item.range == request.range)) match = &item;
    }
    if (match != nullptr) found.push_back(match);
  }
  return found;
}

void PublishedData::answer(const Request& request, const std::vector<Item*>& items) {
  std::vector<pmix_pdata_t> data(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    data[i].proc = items[i]->publisher;
    items[i]->key.copy(data[i].key, PMIX_MAX_KEYLEN);
    data[i].value = items[i]->value.begin()->value;  // valid during the call
  }
  request.found(items.empty() ? PMIX_ERR_NOT_FOUND : PMIX_SUCCESS, data);
  items_.remove_if([&](const Item& item) {
    return item.persistence == PMIX_PERSIST_FIRST_READ &&
           std::find(items.begin(), items.end(), &item) != items.end();
  });
}

void PublishedData::look_up(std::uint64_t number, const pmix_proc_t& id, std::vector<std::string> keys,
                            const InfoList& directives, Found found) {
  Request request{number, id, std::move(keys), PMIX_RANGE_UNDEF, 0, std::move(found)};
  request.range = directive<pmix_data_range_t>(directives, PMIX_RANGE, PMIX_RANGE_UNDEF);
  if (const pmix_value_t* wait = directives.find(PMIX_WAIT)) {
    auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(0, number_of(*wait).value_or(0)));
    request.wanted = wanted == 0 ? request.keys.size() : std::min(wanted, request.keys.size());
  }
  std::vector<Item*> items = matches(request);
  if (items.size() >= request.wanted) {
    answer(request, items);
  } else {
    waiting_.push_back(std::move(request));
  }
}

void PublishedData::retry() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    std::vector<Item*> items = matches(*it);
    if (items.size() < it->wanted) {
      ++it;
      continue;
    }
    Request request = std::move(*it);
    it = waiting_.erase(it);
    answer(request, items);
  }
}

void PublishedData::give_up(std::uint64_t request, pmix_status_t status) {
  auto it = std::find_if(waiting_.begin(), waiting_.end(), [&](const Request& r) { return r.number == request; });
  if (it == waiting_.end()) return;
  Request given_up = std::move(*it);
  waiting_.erase(it);
  std::vector<pmix_pdata_t> none;
  given_up.found(status, none);
}

void PublishedData::process_ended(const pmix_proc_t& process) {
  items_.remove_if(
      [&](const Item& item) { return item.persistence == PMIX_PERSIST_PROC && same(item.publisher, process); });
  std::vector<std::uint64_t> pending;
  for (const Request& request : waiting_) {
    if (same(request.id, process)) pending.push_back(request.number);
  }
  for (std::uint64_t request : pending) give_up(request, PMIX_ERR_UNREACH);
}

void PublishedData::namespace_ended(const std::string& nspace) {
  items_.remove_if(
      [&](const Item& item) { return item.persistence == PMIX_PERSIST_APP && nspace == item.publisher.nspace; });
}

}  // namespace nacre::pmix
