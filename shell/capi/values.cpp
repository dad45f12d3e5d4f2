// SPDX-License-Identifier: Apache-2.0
//
// <flux/idset.h>: value::Idset for C, with the universe that Flux's sets have.

#include <fmt/ranges.h>

#include "capi/capi.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

constexpr int kCreateFlags =
    IDSET_FLAG_AUTOGROW | IDSET_FLAG_INITFULL | IDSET_FLAG_COUNT_LAZY | IDSET_FLAG_ALLOC_RR;

bool is_id(unsigned int id) { return id < IDSET_INVALID_ID; }

unsigned int id_or_invalid(std::optional<value::Idset::Id> id) { return id.value_or(IDSET_INVALID_ID); }

const value::Idset& ids_of(const idset* set) {
  static const value::Idset kNone;
  return set != nullptr ? set->ids : kNone;
}

// A new set: `operation` applied to the ids of both; `b` may be null, for no ids.
template <typename Operation>
idset* combined(const idset* a, const idset* b, Operation operation) {
  if (a == nullptr) return none(EINVAL);
  return new idset(idset::of(operation(a->ids, ids_of(b)), std::max(a->universe, b != nullptr ? b->universe : 0)));
}

}  // namespace

// ---- making ------------------------------------------------------------------

idset idset::of(value::Idset ids, std::size_t at_least) {
  idset set;
  set.universe = at_least;
  if (auto last = ids.last(); last && *last >= set.universe) set.universe = std::size_t{*last} + 1;
  set.ids = std::move(ids);
  return set;
}

Result<idset> idset::create(std::size_t size, int flags) {
  if ((flags & ~kCreateFlags) != 0) return invalid(fmt::format("unknown flags in {:#x}", flags));
  if (size > IDSET_MAX_UNIVERSE) {
    return Error{ERANGE, fmt::format("a size of {}; at most {}", size, IDSET_MAX_UNIVERSE)};
  }
  idset set;
  if (size > 0) set.universe = size;
  set.flags = flags;
  if (set.has(IDSET_FLAG_INITFULL)) set.ids.insert(0, static_cast<unsigned int>(set.universe - 1));
  return set;
}

struct idset* idset_create(size_t size, int flags) noexcept {
  Result<idset> made = idset::create(size, flags);
  return made ? new idset(*std::move(made)) : none(made.error().code);
}

void idset_destroy(struct idset* idset) noexcept {
  int code = errno;
  delete idset;
  errno = code;
}

struct idset* idset_copy(const struct idset* idset) noexcept {
  return idset != nullptr ? new struct idset(*idset) : none(EINVAL);
}

size_t idset_universe_size(const struct idset* idset) noexcept { return idset != nullptr ? idset->universe : 0; }

// ---- changing ----------------------------------------------------------------

Result<void> idset::reach(std::size_t id) {
  if (id < universe) return {};
  if (!has(IDSET_FLAG_AUTOGROW)) return invalid(fmt::format("no room for id {}, only up to {}", id, universe - 1));
  if (id >= IDSET_MAX_UNIVERSE) {
    return Error{ERANGE, fmt::format("expected an id up to {}, got {}", IDSET_MAX_UNIVERSE - 1, id)};
  }
  std::size_t before = universe;
  while (universe <= id) universe = std::min(2 * universe, IDSET_MAX_UNIVERSE);
  if (has(IDSET_FLAG_INITFULL)) {
    ids.insert(static_cast<unsigned int>(before), static_cast<unsigned int>(universe - 1));
  }
  return {};
}

Result<void> idset::add(const value::Idset& others) {
  if (others.empty()) return {};
  CHECK_OK(reach(*others.last()));
  ids = ids | others;
  return {};
}

Result<void> idset::add(unsigned int first, unsigned int last) {
  CHECK_OK(reach(last));
  ids.insert(first, last);
  return {};
}

// An id beyond the universe is in the set only after the set has grown with all new ids set.
Result<void> idset::subtract(const value::Idset& others) {
  if (others.empty()) return {};
  if (has(IDSET_FLAG_INITFULL) && has(IDSET_FLAG_AUTOGROW)) CHECK_OK(reach(*others.last()));
  ids = ids - others;
  return {};
}

Result<void> idset::subtract(unsigned int first, unsigned int last) {
  if (has(IDSET_FLAG_INITFULL) && has(IDSET_FLAG_AUTOGROW)) CHECK_OK(reach(last));
  ids.remove(first, last);
  return {};
}

int idset_set(struct idset* idset, unsigned int id) noexcept { return idset_range_set(idset, id, id); }

int idset_range_set(struct idset* idset, unsigned int lo, unsigned int hi) noexcept {
  if (idset == nullptr || !is_id(lo) || !is_id(hi)) return fail(EINVAL);
  return fail_with(idset->add(std::min(lo, hi), std::max(lo, hi)));
}

int idset_clear(struct idset* idset, unsigned int id) noexcept { return idset_range_clear(idset, id, id); }

int idset_range_clear(struct idset* idset, unsigned int lo, unsigned int hi) noexcept {
  if (idset == nullptr || !is_id(lo) || !is_id(hi)) return fail(EINVAL);
  return fail_with(idset->subtract(std::min(lo, hi), std::max(lo, hi)));
}

// ---- asking ------------------------------------------------------------------

bool idset_test(const struct idset* idset, unsigned int id) noexcept {
  return idset != nullptr && idset->ids.contains(id);
}

size_t idset_count(const struct idset* idset) noexcept { return idset != nullptr ? idset->ids.size() : 0; }

bool idset_empty(const struct idset* idset) noexcept { return idset == nullptr || idset->ids.empty(); }

unsigned int idset_first(const struct idset* idset) noexcept {
  return idset != nullptr ? id_or_invalid(idset->ids.first()) : IDSET_INVALID_ID;
}

unsigned int idset_next(const struct idset* idset, unsigned int id) noexcept {
  return idset != nullptr ? id_or_invalid(idset->ids.next(id)) : IDSET_INVALID_ID;
}

unsigned int idset_last(const struct idset* idset) noexcept {
  return idset != nullptr ? id_or_invalid(idset->ids.last()) : IDSET_INVALID_ID;
}

unsigned int idset_prev(const struct idset* idset, unsigned int id) noexcept {
  return idset != nullptr && is_id(id) ? id_or_invalid(idset->ids.prev(id)) : IDSET_INVALID_ID;
}

// ---- two sets ----------------------------------------------------------------

bool idset_equal(const struct idset* a, const struct idset* b) noexcept {
  return a != nullptr && b != nullptr && a->ids == b->ids;
}

bool idset_has_intersection(const struct idset* a, const struct idset* b) noexcept {
  return a != nullptr && b != nullptr && !(a->ids & b->ids).empty();
}

struct idset* idset_union(const struct idset* a, const struct idset* b) noexcept {
  return combined(a, b, [](const value::Idset& x, const value::Idset& y) { return x | y; });
}

struct idset* idset_difference(const struct idset* a, const struct idset* b) noexcept {
  return combined(a, b, [](const value::Idset& x, const value::Idset& y) { return x - y; });
}

struct idset* idset_intersect(const struct idset* a, const struct idset* b) noexcept {
  if (b == nullptr) return none(EINVAL);
  return combined(a, b, [](const value::Idset& x, const value::Idset& y) { return x & y; });
}

int idset_add(struct idset* a, const struct idset* b) noexcept {
  return a != nullptr ? fail_with(a->add(ids_of(b))) : fail(EINVAL);
}

int idset_subtract(struct idset* a, const struct idset* b) noexcept {
  return a != nullptr ? fail_with(a->subtract(ids_of(b))) : fail(EINVAL);
}

// ---- a store of ids ----------------------------------------------------------

int idset_alloc(struct idset* idset, unsigned int* val) noexcept {
  if (idset == nullptr || val == nullptr || !idset->has(IDSET_FLAG_INITFULL)) return fail(EINVAL);
  value::Idset& free_ids = idset->ids;
  std::optional<value::Idset::Id> id;
  if (idset->has(IDSET_FLAG_ALLOC_RR) && is_id(idset->taken)) id = free_ids.next(idset->taken);
  if (!id) id = free_ids.first();
  if (!id) {
    if (fail_with(idset->reach(idset->universe)) < 0) return -1;
    id = free_ids.first();
  }
  free_ids.remove(*id);
  *val = idset->taken = *id;
  return 0;
}

void idset_free(struct idset* idset, unsigned int val) noexcept {
  if (idset != nullptr && idset->has(IDSET_FLAG_INITFULL)) idset_set(idset, val);
}

int idset_free_check(struct idset* idset, unsigned int val) noexcept {
  if (idset == nullptr || !idset->has(IDSET_FLAG_INITFULL)) return fail(EINVAL);
  return idset_test(idset, val) ? fail(EEXIST) : idset_set(idset, val);
}

// ---- idset text -------------------------------------------------------------------------
//
// <flux/idset.h>: sets from text, and back.

namespace {

constexpr std::uint64_t kMaxListed = std::uint64_t{1} << 20;  // ids that are written one by one

int refuse(const Error& why, idset_error_t* error) {
  if (error != nullptr) std::snprintf(error->text, sizeof error->text, "%s", why.message.c_str());
  return fail(why.code);
}

std::string_view cut(const char* s, ssize_t len) {
  return {s, len < 0 ? std::strlen(s) : ::strnlen(s, static_cast<std::size_t>(len))};
}

Result<value::Idset> parse(const char* s, ssize_t len) {
  if (s == nullptr) return invalid("no text given");
  Result<value::Idset> ids = value::Idset::parse(cut(s, len));
  if (!ids) return Error{ids.error().code == ERANGE ? ERANGE : EINVAL, std::move(ids).error().message};
  if (auto last = ids->last(); last && *last >= IDSET_MAX_UNIVERSE) {
    return Error{ERANGE, fmt::format("expected ids up to {}, got {}", IDSET_MAX_UNIVERSE - 1, *last)};
  }
  return ids;
}

Result<idset> decode(const char* s, ssize_t len, ssize_t size, int flags) {
  value::Idset ids = TRY(parse(s, len));
  if (size < 0) {
    if (ids.empty() && (flags & IDSET_FLAG_AUTOGROW) == 0) return invalid("a set for no ids has no room at all");
    size = ids.empty() ? 1 : ssize_t{*ids.last()} + 1;
  }
  idset set = TRY(idset::create(static_cast<std::size_t>(size), flags));
  CHECK_OK(set.add(ids));
  return set;
}

}  // namespace

struct idset* idset_decode(const char* s) noexcept {
  return idset_decode_ex(s, -1, 0, IDSET_FLAG_AUTOGROW, nullptr);
}

struct idset* idset_ndecode(const char* s, size_t len) noexcept {
  return idset_decode_ex(s, static_cast<ssize_t>(len), 0, IDSET_FLAG_AUTOGROW, nullptr);
}

struct idset* idset_decode_ex(const char* s, ssize_t len, ssize_t size, int flags, idset_error_t* error) noexcept {
  Result<idset> set = decode(s, len, size, flags);
  if (set) return new idset(*std::move(set));
  refuse(set.error(), error);
  return nullptr;
}

bool idset_decode_empty(const char* s, ssize_t len) noexcept {
  Result<value::Idset> ids = parse(s, len);
  return ids && ids->empty();
}

int idset_decode_info(const char* s, ssize_t len, size_t* count, unsigned int* maxid,
                      idset_error_t* error) noexcept {
  Result<value::Idset> ids = parse(s, len);
  if (!ids) return refuse(ids.error(), error);
  if (count != nullptr) *count = ids->size();
  if (maxid != nullptr) *maxid = ids->last().value_or(IDSET_INVALID_ID);
  return 0;
}

int idset_decode_add(struct idset* idset, const char* s, ssize_t len, idset_error_t* error) noexcept {
  if (idset == nullptr) return refuse(invalid("no set given"), error);
  Result<value::Idset> ids = parse(s, len);
  if (!ids) return refuse(ids.error(), error);
  Result<void> added = idset->add(*ids);
  return added ? 0 : refuse(added.error(), error);
}

int idset_decode_subtract(struct idset* idset, const char* s, ssize_t len, idset_error_t* error) noexcept {
  if (idset == nullptr) return refuse(invalid("no set given"), error);
  Result<value::Idset> ids = parse(s, len);
  if (!ids) return refuse(ids.error(), error);
  Result<void> removed = idset->subtract(*ids);
  return removed ? 0 : refuse(removed.error(), error);
}

char* idset_encode(const struct idset* idset, int flags) noexcept {
  if (idset == nullptr || (flags & ~(IDSET_FLAG_BRACKETS | IDSET_FLAG_RANGE)) != 0) return none(EINVAL);
  bool ranges = (flags & IDSET_FLAG_RANGE) != 0;
  if (!ranges && idset->ids.size() > kMaxListed) return none(ENOMEM);
  std::string text = ranges ? idset->ids.str() : fmt::format("{}", fmt::join(idset->ids.ids(), ","));
  if ((flags & IDSET_FLAG_BRACKETS) != 0 && idset->ids.size() > 1) text = "[" + text + "]";
  char* copy = c_string(text);
  return copy != nullptr ? copy : none(ENOMEM);
}

// <flux/hostlist.h>: value::Hostlist for C.

namespace {

// The manual has only this errno for too much of anything.
int documented(int code) { return code == E2BIG ? ERANGE : code; }

int as_int(std::uint64_t count) { return static_cast<int>(count); }  // a list has at most kMaxHosts names

// The name at the cursor.
const char* current(struct hostlist* hl) {
  auto name = hl->names.nth(hl->cursor);
  if (!name) return none(ENOENT);
  hl->name = std::move(*name);
  return hl->name.c_str();
}

const char* move_to(struct hostlist* hl, std::uint64_t position) {
  if (position >= hl->names.size()) return none(ENOENT);
  hl->cursor = position;
  hl->is_removed = false;
  return current(hl);
}

int append(struct hostlist* hl, const value::Hostlist& more) {
  if (more.size() > value::Hostlist::kMaxHosts - hl->names.size()) return fail(ERANGE);
  hl->names.append(more);
  return as_int(more.size());
}

}  // namespace

struct hostlist* hostlist_create(void) noexcept {
  return std::make_unique<hostlist>().release();
}

struct hostlist* hostlist_decode(const char* s) noexcept {
  if (s == nullptr) return none(EINVAL);
  Result<value::Hostlist> names = value::Hostlist::parse(s);
  if (!names) return none(documented(names.error().code));
  auto out = std::make_unique<hostlist>();
  out->names = std::move(*names);
  return out.release();
}

struct hostlist* hostlist_copy(const struct hostlist* hl) noexcept {
  if (hl == nullptr) return none(EINVAL);
  auto out = std::make_unique<hostlist>();
  out->names = hl->names;
  return out.release();
}

void hostlist_destroy(struct hostlist* hl) noexcept {
  int code = errno;
  delete hl;
  errno = code;
}

char* hostlist_encode(struct hostlist* hl) noexcept {
  if (hl == nullptr) return none(EINVAL);
  char* text = c_string(hl->names.str());
  return text != nullptr ? text : none(ENOMEM);
}

int hostlist_count(struct hostlist* hl) noexcept { return hl != nullptr ? as_int(hl->names.size()) : 0; }

int hostlist_append(struct hostlist* hl, const char* hosts) noexcept {
  if (hl == nullptr) return fail(EINVAL);
  if (hosts == nullptr) return 0;
  Result<value::Hostlist> more = value::Hostlist::parse(hosts);
  return more ? append(hl, *more) : fail(documented(more.error().code));
}

int hostlist_append_list(struct hostlist* hl1, struct hostlist* hl2) noexcept {
  if (hl1 == nullptr || hl2 == nullptr) return fail(EINVAL);
  value::Hostlist more = hl2->names;  // a copy, as the two lists may be one
  return append(hl1, more);
}

int hostlist_delete(struct hostlist* hl, const char* hosts) noexcept {
  if (hl == nullptr || hosts == nullptr) return fail(EINVAL);
  Result<value::Hostlist> doomed = value::Hostlist::parse(hosts);
  if (!doomed) return fail(documented(doomed.error().code));
  // The cursor stays at its name, or moves to the next one that is left; removing a name before it moves it too.
  std::uint64_t before = hl->cursor;
  value::Hostlist head = hl->names.part(0, before);
  std::uint64_t gone_before = head.remove(*doomed);
  std::uint64_t gone = hl->names.remove(*doomed);
  hl->cursor = before - gone_before;
  return as_int(gone);
}

const char* hostlist_nth(struct hostlist* hl, int n) noexcept {
  if (hl == nullptr || n < 0) return none(EINVAL);
  return move_to(hl, static_cast<std::uint64_t>(n));
}

int hostlist_find(struct hostlist* hl, const char* hostname) noexcept {
  if (hl == nullptr || hostname == nullptr) return fail(EINVAL);
  auto position = hl->names.find(hostname);
  if (!position) return fail(ENOENT);
  hl->cursor = *position;
  hl->is_removed = false;
  return as_int(*position);
}

struct hostlist_hostname* hostlist_hostname_create(const char* hostname) noexcept {
  if (hostname == nullptr) return none(EINVAL);
  return new hostlist_hostname{hostname};
}

void hostlist_hostname_destroy(struct hostlist_hostname* hn) noexcept {
  int code = errno;
  delete hn;
  errno = code;
}

int hostlist_find_hostname(struct hostlist* hl, struct hostlist_hostname* hn) noexcept {
  return hn != nullptr ? hostlist_find(hl, hn->name.c_str()) : fail(EINVAL);
}

void hostlist_sort(struct hostlist* hl) noexcept {
  if (hl == nullptr) return;
  hl->names.sort();
  hl->cursor = 0;
  hl->is_removed = false;
}

void hostlist_uniq(struct hostlist* hl) noexcept {
  if (hl == nullptr) return;
  hl->names.uniq();
  hl->cursor = 0;
  hl->is_removed = false;
}

const char* hostlist_first(struct hostlist* hl) noexcept { return hl != nullptr ? move_to(hl, 0) : none(EINVAL); }

const char* hostlist_last(struct hostlist* hl) noexcept {
  if (hl == nullptr) return none(EINVAL);
  return hl->names.empty() ? none(ENOENT) : move_to(hl, hl->names.size() - 1);
}

const char* hostlist_next(struct hostlist* hl) noexcept {
  if (hl == nullptr) return none(EINVAL);
  if (!std::exchange(hl->is_removed, false) && hl->cursor < hl->names.size()) ++hl->cursor;
  return current(hl);
}

const char* hostlist_current(struct hostlist* hl) noexcept { return hl != nullptr ? current(hl) : none(EINVAL); }

int hostlist_remove_current(struct hostlist* hl) noexcept {
  if (hl == nullptr) return fail(EINVAL);
  if (hl->cursor >= hl->names.size()) return 0;
  value::Hostlist left = hl->names.part(0, hl->cursor);
  left.append(hl->names.part(hl->cursor + 1, hl->names.size() - hl->cursor - 1));
  hl->names = std::move(left);
  hl->is_removed = true;
  return 1;
}

const struct hostlist* flux_shell_get_hostlist(flux_shell_t* shell) noexcept {
  if (shell == nullptr) return none(EINVAL);
  if (shell->hosts.names.empty()) {
    for (const job::NodeResources& node : shell->host.job().resources.nodes)
      shell->hosts.names.append(node.hostname);
  }
  return &shell->hosts;
}

// <flux/taskmap.h>: value::Taskmap for C.

namespace {

constexpr int kAllForms =
    TASKMAP_ENCODE_WRAPPED | TASKMAP_ENCODE_PMI | TASKMAP_ENCODE_RAW | TASKMAP_ENCODE_RAW_DERANGED;

void explain(flux_error_t* errp, const std::string& why) {
  if (errp != nullptr) std::snprintf(errp->text, sizeof errp->text, "%s", why.c_str());
}

std::string without_ranges(const value::Idset& ids) { return fmt::format("{}", fmt::join(ids.ids(), ",")); }

std::string raw_without_ranges(const value::Taskmap& map) {
  std::string text;
  for (std::uint32_t node = 0; node < map.nodes(); ++node) {
    if (node > 0) text += ';';
    text += without_ranges(map.ranks_on(node));
  }
  return text;
}

int small(std::uint64_t count) {
  return static_cast<int>(std::min<std::uint64_t>(count, std::numeric_limits<int>::max()));
}

bool has_node(const taskmap* map, int nodeid) {
  return nodeid >= 0 && static_cast<std::uint32_t>(nodeid) < map->map.nodes();
}

}  // namespace

struct taskmap* taskmap_create(void) noexcept {
  return std::make_unique<taskmap>().release();
}

void taskmap_destroy(struct taskmap* map) noexcept { delete map; }

int taskmap_append(struct taskmap* map, int nodeid, int nnodes, int ppn) noexcept {
  if (map == nullptr || nodeid < 0 || nnodes < 1 || ppn < 1) return fail(EINVAL);
  auto of = [](int number) { return static_cast<std::uint64_t>(number); };
  Result<void> added = map->map.add(of(nodeid), of(nnodes), of(ppn), 1);
  return added ? 0 : fail(added.error().code);
}

struct taskmap* taskmap_decode(const char* map, flux_error_t* errp) noexcept {
  Result<value::Taskmap> parsed = invalid("no task map given");
  if (map != nullptr) parsed = value::Taskmap::parse(map);
  if (!parsed) {
    explain(errp, parsed.error().message);
    return none(EINVAL);
  }
  auto made = std::make_unique<taskmap>();
  made->map = *std::move(parsed);
  return made.release();
}

char* taskmap_encode(const struct taskmap* map, int flags) noexcept {
  if (map == nullptr || (flags & ~kAllForms) != 0) return none(EINVAL);
  switch (flags) {
    case 0: return c_string(map->map.str());
    case TASKMAP_ENCODE_WRAPPED: return c_string(dump_json(map->map.json()));
    case TASKMAP_ENCODE_PMI: return c_string(map->map.pmi());
    case TASKMAP_ENCODE_RAW: return c_string(map->map.raw());
    case TASKMAP_ENCODE_RAW_DERANGED: return c_string(raw_without_ranges(map->map));
    default: return none(EINVAL);  // more than one form
  }
}

bool taskmap_unknown(const struct taskmap* map) noexcept { return map == nullptr || map->map.unknown(); }

int taskmap_nodeid(const struct taskmap* map, int taskid) noexcept {
  if (taskmap_unknown(map) || taskid < 0) return fail(EINVAL);
  Result<std::uint32_t> node = map->map.node_of(static_cast<std::uint64_t>(taskid));
  return node ? static_cast<int>(*node) : fail(ENOENT);
}

int taskmap_ntasks(const struct taskmap* map, int nodeid) noexcept {
  if (taskmap_unknown(map) || nodeid < 0) return fail(EINVAL);
  return has_node(map, nodeid) ? small(map->map.tasks_on(static_cast<std::uint32_t>(nodeid))) : fail(ENOENT);
}

int taskmap_nnodes(const struct taskmap* map) noexcept {
  return !taskmap_unknown(map) ? small(map->map.nodes()) : fail(EINVAL);
}

int taskmap_total_ntasks(const struct taskmap* map) noexcept {
  return !taskmap_unknown(map) ? small(map->map.tasks()) : fail(EINVAL);
}

const struct idset* taskmap_taskids(const struct taskmap* map, int nodeid) noexcept {
  if (taskmap_unknown(map) || nodeid < 0) return none(EINVAL);
  if (!has_node(map, nodeid)) return none(ENOENT);
  map->taskids = idset::of(map->map.ranks_on(static_cast<std::uint32_t>(nodeid)));
  return &map->taskids;
}

int taskmap_check(const struct taskmap* a, const struct taskmap* b, flux_error_t* errp) noexcept {
  if (a == nullptr || b == nullptr) {
    explain(errp, "no task map given");
    return fail(EINVAL);
  }
  if (a->map.tasks() != b->map.tasks()) {
    explain(errp, fmt::format("expected {} tasks, got {}", a->map.tasks(), b->map.tasks()));
    return fail(EINVAL);
  }
  if (a->map.nodes() != b->map.nodes()) {
    explain(errp, fmt::format("expected {} nodes, got {}", a->map.nodes(), b->map.nodes()));
    return fail(EINVAL);
  }
  return 0;
}
