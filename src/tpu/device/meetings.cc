// A meeting is held by whoever comes last.
#include "tpu/device/meetings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

#include "tpu/device/helper_threads.h"

namespace torus::tpu {
namespace {

constexpr char kLimitVariable[] = "TORUS_COLLECTIVE_TIMEOUT";

void Tell(std::vector<Part>& parts, const Status& status) {
  std::ranges::partition(parts, &Part::from_afar);
  for (Part& part : parts) part.done(status);
}

std::vector<int64_t> DevicesOf(const std::vector<Part>& parts) {
  std::vector<int64_t> devices;
  for (const Part& part : parts) devices.push_back(part.member.replica);
  std::ranges::sort(devices);
  return devices;
}

}  // namespace

Meetings::Patience Meetings::Patience::FromEnvironment() {
  Patience patience;
  const char* text = std::getenv(kLimitVariable);  // NOLINT(concurrency-mt-unsafe): no one sets it
  int64_t seconds = 0;
  if (text != nullptr &&
      std::from_chars(text, text + std::strlen(text), seconds).ec == std::errc() && seconds > 0) {
    patience.limit = Seconds(seconds);
  }
  return patience;
}

Result<std::vector<int64_t>> Meetings::GroupOf(const Part& part) const {
  const auto& collective = part.collective;
  const int64_t device = part.member.replica;
  std::vector<int64_t> all(static_cast<size_t>(devices_));
  std::iota(all.begin(), all.end(), 0);
  const bool one =
      collective.groups.empty() || collective.kind == program::CollectiveKind::kPermute;
  if (device < 0 || device >= devices_) return InvalidArgument("There is no device {}.", device);
  if (one) return all;
  for (const auto& group : collective.groups) {
    if (std::ranges::find(group, device) == group.end()) continue;
    auto sorted = group;
    std::ranges::sort(sorted);
    const bool twice = std::ranges::adjacent_find(sorted) != sorted.end();
    if (!twice && sorted.front() >= 0 && sorted.back() < devices_) return group;
    return InvalidArgument("A collective has the group [{}] of the devices from 0 to {}.",
                           fmt::join(group, ", "), devices_ - 1);
  }
  return InvalidArgument("Device {} is in no group of its collective.", device);
}

Status Meetings::LostOf(const std::vector<int64_t>& group) const {
  for (const auto& [device, error] : lost_) {
    if (std::ranges::find(group, device) != group.end()) return error;
  }
  return Status();
}

Status Meetings::Check(const Meeting& meeting, const Part& part) {
  if (meeting.parts.empty()) return Status();
  const Part& first = meeting.parts.front();
  const auto came = DevicesOf(meeting.parts);
  if (std::ranges::find(came, part.member.replica) != came.end()) {
    return Internal("Device {} comes to one collective twice.", part.member.replica);
  }
  if (first.collective == part.collective) return Status();
  return InvalidArgument(
      "Devices {} and {} meet in different collectives; they must run the same collectives in the "
      "same order.",
      first.member.replica, part.member.replica);
}

void Meetings::Join(Part part) {
  const auto group = GroupOf(part);
  if (!group) return part.done(group.error());
  const Place place{part.key, group->front()};
  Meeting ready;
  Status wrong;
  bool watch = false;
  {
    const MutexLock lock(mutex_);
    Meeting& meeting = meetings_[place];
    meeting.group = *group;
    wrong = LostOf(*group);
    if (wrong.ok()) wrong = Check(meeting, part);
    meeting.parts.push_back(std::move(part));
    if (!wrong.ok() || meeting.parts.size() == group->size()) {
      ready = std::move(meetings_.extract(place).mapped());
    } else {
      watch = !std::exchange(watched_, true);
    }
  }
  if (watch) RunOnHelper([self = shared_from_this()] { self->Watch(); });
  if (ready.parts.empty()) return;  // the others are yet to come
  if (!wrong.ok()) return Tell(ready.parts, wrong);
  Hold(std::move(ready));
}

void Meetings::Hold(Meeting meeting) {
  const auto place_of = [&](const Part& part) {
    return std::ranges::find(meeting.group, part.member.replica);
  };
  std::ranges::sort(meeting.parts, {}, place_of);
  std::vector<kernels::Member> members;
  for (Part& part : meeting.parts) members.push_back(std::move(part.member));
  Tell(meeting.parts, kernels::Combine(meeting.parts.front().collective, members));
}

void Meetings::Lose(const std::vector<int64_t>& devices, const Status& error) {
  std::vector<Meeting> over;
  {
    const MutexLock lock(mutex_);
    for (const int64_t device : devices) lost_.emplace(device, error);
    for (auto at = meetings_.begin(); at != meetings_.end();) {
      if (LostOf(at->second.group).ok()) {
        ++at;
        continue;
      }
      over.push_back(std::move(at->second));
      at = meetings_.erase(at);
    }
  }
  for (Meeting& meeting : over) Tell(meeting.parts, error);
}

// ---- Those that wait long

Status Meetings::Overdue(const Meeting& meeting) const {
  const auto came = DevicesOf(meeting.parts);
  std::vector<int64_t> missing;
  std::ranges::copy_if(meeting.group, std::back_inserter(missing), [&](int64_t device) {
    return std::ranges::find(came, device) == came.end();
  });
  const auto seconds = std::chrono::duration_cast<Seconds>(Clock::now() - meeting.began);
  return DeadlineExceeded(
      "TPU devices [{}] have waited {} s in a collective for devices [{}]. Is one busy with what "
      "the "
      "others leave out, or has it failed? The limit is {} s; {} sets another.",
      fmt::join(came, ", "), seconds.count(), fmt::join(missing, ", "), patience_.limit.count(),
      kLimitVariable);
}

std::vector<Meetings::Meeting> Meetings::TakeOverdue() {
  std::vector<Meeting> overdue;
  for (auto at = meetings_.begin(); at != meetings_.end();) {
    Meeting& meeting = at->second;
    const auto waited = Clock::now() - meeting.began;
    if (waited >= patience_.limit) {
      overdue.push_back(std::move(meeting));
      at = meetings_.erase(at);
      continue;
    }
    if (waited >= patience_.warning && !std::exchange(meeting.warned, true)) {
      std::fprintf(stderr, "libtpu.so: %s\n", Overdue(meeting).message().c_str());
    }
    ++at;
  }
  return overdue;
}

void Meetings::Watch() {
  while (true) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::vector<Meeting> overdue;
    {
      const MutexLock lock(mutex_);
      overdue = TakeOverdue();
      if (overdue.empty() && meetings_.empty()) {
        watched_ = false;
        return;
      }
    }
    for (Meeting& meeting : overdue) Tell(meeting.parts, Overdue(meeting));
  }
}

}  // namespace torus::tpu
