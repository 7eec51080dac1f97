// `torus serve`: the service, put together and run until SIGTERM or SIGINT.
#ifndef TORUS_SERVICE_SERVE_H_
#define TORUS_SERVICE_SERVE_H_

namespace torus::service {

// Takes the arguments after the word `serve` as argv[1] …; argv[0] is not looked at. Returns the
// exit status: 0 after a drained stop, 1 if it could not start, 2 for a wrong flag.
int ServeMain(int argc, char** argv);

}  // namespace torus::service

#endif  // TORUS_SERVICE_SERVE_H_
