// Asks Perfetto's trace processor what it sees in the sample trace (tests/reports/
// sample_traces.cpp): node check_trace.mjs ENGINE_BUNDLE TRACE. Both formats must give the same
// tables, up to the names that Perfetto itself makes from JSON.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

import { TraceProcessor } from './trace_processor.mjs';

const [engine, path] = process.argv.slice(2);
const isJson = path.endsWith('.json');
const annotation = isJson ? 'args' : 'debug';
const counter = isJson ? ' bytes' : '';

const processor = await TraceProcessor.start(engine);
processor.load(readFileSync(path));

assert.deepEqual(
  processor.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0"),
  [], 'nothing is lost or misunderstood');

assert.deepEqual(
  processor.query('select pid, name from process where pid > 0 order by pid'),
  [[1, 'rank 0 (node 0, gpu 0)'], [6, 'rank 5 \\x1b[31m']], 'one process per rank');

assert.deepEqual(
  processor.query(`select pid, tid, thread.name, is_main_thread from thread
                   join process using (upid) where pid > 0 order by pid, tid`),
  [
    [1, 1, 'compute', 1],
    [1, 1000001, 'dp_shard', 0],
    [6, 6, 'compute', 1],
    [6, 1000006, 'dp_shard', 0],
  ], 'one thread per stream, in its process');

assert.deepEqual(
  processor.query(`select pid, tid, ts, dur, slice.name, category, depth from slice
                   join thread_track on slice.track_id = thread_track.id
                   join thread using (utid) join process using (upid)
                   order by pid, tid, slice.id`),
  [
    [1, 1, 0, 1500, 'matmul', 'compute', 0],
    [1, 1, 1500, 1, 'relu', 'compute', 0],
    [1, 1, 1501, 0, 'add', 'compute', 0],
    [1, 1, 2000, 1000, 'matmul', 'compute', 0],
    [1, 1000001, 1501, 1249, 'all_reduce', 'dp_shard', 0],
    [6, 6, 0, 1000, 'matmul', 'compute', 0],
    [6, 1000006, 1501, 1249, 'all_reduce', 'dp_shard', 0],
  ], 'every slice, in whole nanoseconds, none nested in another');
assert.deepEqual(processor.query('select count(*) from slice'), [[7]], 'no slice elsewhere');

assert.deepEqual(
  processor.query(`select pid, key, int_value, string_value from slice
                   join args using (arg_set_id)
                   join thread_track on slice.track_id = thread_track.id
                   join thread using (utid) join process using (upid) order by pid, key`),
  [
    [1, `${annotation}.bytes`, 4096, null],
    [1, `${annotation}.label`, null, 'bucket "0"'],
    [1, `${annotation}.operation`, 7, null],
    [6, `${annotation}.bytes`, 4096, null],
    [6, `${annotation}.operation`, 7, null],
  ], 'annotations, where a slice has them');

assert.deepEqual(
  processor.query(`select pid, track.name, ts, value from counter
                   join process_counter_track as track on counter.track_id = track.id
                   join process using (upid) order by pid, ts, track.name`),
  [
    [1, `memory params${counter}`, 0, 1024],
    [1, `memory activations${counter}`, 1000, 2048],
    [1, `memory activations${counter}`, 2500, 0],
    [6, `memory params${counter}`, 0, 2 ** 40],
  ], 'memory counters of each process');

console.log(`${path}: Perfetto sees what was written`);
