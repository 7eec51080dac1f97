# A toolchain file: C and C++ by zig (PyPI's ziglang), for a glibc that is older than the host's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
find_program(ZIG_PYTHON python3 PATHS ${CMAKE_CURRENT_LIST_DIR}/../../build/wheel/venv/bin NO_DEFAULT_PATH REQUIRED)
set(target -target x86_64-linux-gnu.2.28)
set(CMAKE_C_COMPILER ${ZIG_PYTHON} -m ziglang cc ${target})
set(CMAKE_CXX_COMPILER ${ZIG_PYTHON} -m ziglang c++ ${target})
