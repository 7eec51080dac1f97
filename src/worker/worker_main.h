// `torus worker`: the agent of one TPU VM.
#ifndef TORUS_WORKER_WORKER_MAIN_H_
#define TORUS_WORKER_WORKER_MAIN_H_

namespace torus::worker {

// Runs the worker until its VM is deleted, or ends at once when the VM has a worker already.
// `argv` begins with the word `worker`; what follows:
//   --socket PATH --dir FOLDER --node-uid UID --index N   as the agent;
//   --detach besides: returns when the agent runs on its own, its output in FOLDER/log/worker.log;
//   --purge besides: takes down and removes the VM, without a service, and returns.
// Returns the exit code: 0, 1 after an error (told on stderr), 2 for wrong arguments.
// REQUIRES: a process with one thread; it gets a mount namespace of its own.
int WorkerMain(int argc, char** argv);

}  // namespace torus::worker

#endif  // TORUS_WORKER_WORKER_MAIN_H_
