#include "tpu/tensorflow/runtime/stream.h"

#include <utility>

#include "tpu/tensorflow/runtime/callbacks.h"

namespace torus::tensorflow {

void Completion::Complete() {
  std::vector<std::function<void()>> waiters;
  {
    const MutexLock lock(mutex_);
    completed_ = true;
    waiters.swap(waiters_);
  }
  for (const auto& then : waiters) then();
}

bool Completion::completed() const {
  const MutexLock lock(mutex_);
  return completed_;
}

void Completion::WhenCompleted(std::function<void()> then) {
  {
    const MutexLock lock(mutex_);
    if (!completed_) return waiters_.push_back(std::move(then));
  }
  then();
}

Stream::ItemPtr Stream::Add(std::function<void(const ItemPtr&)> at_head) {
  auto item = std::make_shared<Item>();
  item->at_head = std::move(at_head);
  const MutexLock lock(mutex_);
  items_.push_back(item);
  return item;
}

void Stream::End(const ItemPtr& item, Status status) {
  {
    const MutexLock lock(mutex_);
    item->ended = true;
    if (status_.ok() && !status.ok()) status_ = std::move(status);
  }
  Advance();
}

void Stream::Advance() {
  MutexLock lock(mutex_);
  while (!items_.empty()) {
    const auto head = items_.front();
    if (head->ended) {
      items_.pop_front();
      continue;
    }
    const auto begin = std::exchange(head->at_head, nullptr);
    if (begin == nullptr) return;  // it has begun
    lock.Unlock();
    begin(head);
    lock.Lock();
  }
}

std::function<void(Status)> Stream::Begin() {
  auto item = Add(nullptr);
  return [self = shared_from_this(), item](Status status) { self->End(item, std::move(status)); };
}

void Stream::Then(std::function<Status()> callback) {
  Add([self = shared_from_this(), callback = std::move(callback)](const ItemPtr& item) {
    CallBack([self, item, callback] { self->End(item, callback()); });
  });
  Advance();
}

std::shared_ptr<Completion> Stream::Mark() {
  auto completion = std::make_shared<Completion>();
  Add([this, completion](const ItemPtr& item) {
    completion->Complete();
    const MutexLock lock(mutex_);
    item->ended = true;
  });
  Advance();
  return completion;
}

void Stream::Await(const std::shared_ptr<Completion>& completion) {
  if (completion->completed()) return;
  auto ended = Begin();
  completion->WhenCompleted([ended = std::move(ended)] { ended(Status()); });
}

Status Stream::Wait() {
  Mutex mutex;
  Condition wake;
  bool done = false;
  Mark()->WhenCompleted([&] {
    const MutexLock lock(mutex);
    done = true;
    wake.NotifyOne();
  });
  {
    MutexLock lock(mutex);
    while (!done) wake.Wait(lock);
  }
  const MutexLock lock(mutex_);
  return std::exchange(status_, Status());
}

Status Stream::status() const {
  const MutexLock lock(mutex_);
  return status_;
}

}  // namespace torus::tensorflow
