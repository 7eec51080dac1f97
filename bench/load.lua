-- What wrk sends, and how it reports.
--
--   wrk … -s bench/load.lua URL -- METHOD PATH FIRST COUNT BODY [HEADER VALUE]…
--
-- A "#" in PATH becomes a number: FIRST, FIRST + 1 … and, if COUNT is not 0, round and round in
-- COUNT of them. Use one thread (-t1): each would count for itself. Prints one line of JSON, times
-- in milliseconds: `sent` counts requests that were cut off at the end, too, and `errors` answers of
-- 400 and above.
function setup(thread)
  the_thread = thread
end

function init(args)
  method, path, first, count = args[1], args[2], tonumber(args[3]), tonumber(args[4])
  if args[5] ~= "" then wrk.body = args[5] end
  for i = 6, #args, 2 do wrk.headers[args[i]] = args[i + 1] end
  numbered = path:find("#") ~= nil
  fixed = wrk.format(method, path)
  sent = -1 -- wrk asks for one request before the first that it sends
end

function request()
  if not numbered then return fixed end
  local number = first + (count > 0 and sent % count or sent)
  sent = sent + 1
  return wrk.format(method, (path:gsub("#", string.format("%d", number))))
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '{"sent": %d, "requests": %d, "seconds": %.3f, "errors": %d, "p50": %.3f, "p99": %.3f}\n',
    the_thread:get("sent"), summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
