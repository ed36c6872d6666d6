#!/usr/bin/env python3
"""Compiles tma_ws variants to cubins with NVRTC: compile.py OUT_DIR VARIANTS.txt [JOBS] | --plain FILE.cu FILE.cubin

One variant a line: name key=value ...; keys are the fields of the kernel's Config (defaults below). Writes OUT_DIR/NAME.cubin
and OUT_DIR/variants.txt, which the lab program reads. Variants that spill or whose wgmma is serialised are refused aloud.
"""
import ctypes, hashlib, os, re, sys, time
from concurrent.futures import ProcessPoolExecutor

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'kernels')
DEFAULTS = dict(block_m=128, block_n=256, block_k=64, wave_m=8, wave_groups=1, stages=4, cluster_m=1, cluster_n=1,
                swap_ab=0, split_k=1, tma_c=1, a_type='bf16', b_type='', c_type='', d_type='', layout='rcr', epilogue='')
SIZES = dict(f32=4, f16=2, bf16=2, f8e4m3=1, f8e5m2=1, i8=1, u8=1, i32=4)


def shared_bytes(v):
    size, out = SIZES[v['a_type']], SIZES[v['c_type']]
    groups = v['wave_m'] // 4 * v['wave_groups']
    rows_b = v['block_n'] if v['b_k_major'] else (v['block_n'] + 63) // 64 * 64
    stage = (v['block_m'] + rows_b) * v['block_k'] * size
    s = 64 if v['swap_ab'] or out == 1 else 128 // out
    while v['block_n'] % s: s //= 2
    slices = v['block_n'] // s * (v['block_m'] // (v['wave_m'] // 4) // 64)
    e = 32
    while v['block_n'] % e: e //= 2
    c = groups * ((max((2 if slices > 1 else 1) * 64 * s * out, 256 * e) + 1023) // 1024 * 1024)
    return v['stages'] * stage + c + 16 * v['stages'] + 16


def prelude(v):
    ints = 'block_m block_n block_k wave_m wave_groups stages cluster_m cluster_n swap_ab split_k store a_along_k b_along_k'.split()
    lines = ['  static constexpr int %s = %d;' % (k, v[k]) for k in ints]
    lines += ['  static constexpr tsr::Type %s = tsr::Type::%s;' % (k, v[t]) for k, t in
              [('type_a', 'a_type'), ('type_b', 'b_type'), ('type_out', 'c_type'), ('type_d', 'd_type')]]
    steps = [s for s in v['epilogue'].split(',') if s]
    lines += ['  static constexpr int epilogue_count = %d;' % len(steps)]
    lines += ['  static constexpr tsr::Step epilogue[] = {%s};' % ', '.join('tsr::Step::' + s for s in steps or ['none'])]
    return 'struct Config {\n' + '\n'.join(lines) + '\n};\n'


def parse(line):
    words = line.split()
    v = dict(DEFAULTS, name=words[0])
    for w in words[1:]:
        k, x = w.split('=')
        assert k in v, k
        v[k] = int(x) if isinstance(DEFAULTS[k], int) else x
    v['b_type'] = v['b_type'] or v['a_type']
    v['c_type'] = v['c_type'] or v['a_type']
    v['d_type'] = v['d_type'] or v['c_type']
    v['out_type'] = v['c_type']
    a_k, b_k = v['layout'][0] == 'r', v['layout'][1] == 'c'
    v['a_along_k'], v['b_along_k'], v['store'] = a_k, b_k, v['tma_c']
    v['a_k_major'], v['b_k_major'] = (b_k, a_k) if v['swap_ab'] else (a_k, b_k)
    while shared_bytes(v) > 232448 and v['stages'] > 2: v['stages'] -= 1
    v['shared_bytes'] = shared_bytes(v)
    return v


def nvrtc(text, opts):
    """(cubin or None, log)"""
    rtc = ctypes.CDLL(os.environ.get('TESSERA_CUDA_HOME', '/usr/local/cuda') + '/lib64/libnvrtc.so.13')
    prog, n = ctypes.c_void_p(), ctypes.c_size_t()
    rtc.nvrtcCreateProgram(ctypes.byref(prog), text.encode(), b'unit.cu', 0, None, None)
    rc = rtc.nvrtcCompileProgram(prog, len(opts), (ctypes.c_char_p * len(opts))(*[o.encode() for o in opts]))
    rtc.nvrtcGetProgramLogSize(prog, ctypes.byref(n))
    log = ctypes.create_string_buffer(n.value)
    rtc.nvrtcGetProgramLog(prog, log)
    if rc: return None, log.value.decode()
    rtc.nvrtcGetCUBINSize(prog, ctypes.byref(n))
    cubin = ctypes.create_string_buffer(n.value)
    rtc.nvrtcGetCUBIN(prog, cubin)
    return cubin.raw, log.value.decode()


def compile_one(args):
    v, out = args
    symbol = 'tsr_tma_ws'
    text = '#include "cuda/tma_ws.h"\n' + prelude(v)
    cluster = v['cluster_m'] * v['cluster_n']
    text += ('extern "C" __global__ void __launch_bounds__(tsr::tma_ws<Config>::kThreads, 1)%s\n%s(const __grid_constant__ '
             'tsr::TmaWsParams params) {\n  tsr::tma_ws<Config>::run(params);\n}\n'
             % (' __cluster_dims__(%d, 1, 1)' % cluster if cluster > 1 else '', symbol))
    if v['shared_bytes'] > 232448: return v, None, 'shared memory %d' % v['shared_bytes'], 0
    if os.environ.get('LAB_TEXT'): open(out + '/' + v['name'] + '.cu', 'w').write(text)
    t0 = time.process_time()
    cubin, log = nvrtc(text, ['--gpu-architecture=sm_90a', '-I' + ROOT, '--std=c++20', '--ptxas-options=-v', '-default-device'])
    if cubin: open('%s/%s.cubin' % (out, v['name']), 'wb').write(cubin)
    return v, cubin and len(cubin), log, time.process_time() - t0


FIELDS = ('block_m block_n block_k wave_m wave_groups stages cluster_m cluster_n swap_ab split_k tma_c a_type b_type c_type '
          'layout shared_bytes a_k_major b_k_major').split()

if __name__ == '__main__':
    if sys.argv[1] == '--plain':
        os.makedirs(os.path.dirname(sys.argv[3]), exist_ok=True)
        open(sys.argv[3], 'wb').write(nvrtc(open(sys.argv[2]).read(), ['--gpu-architecture=sm_90a', '-default-device'])[0])
        sys.exit()
    out, path = sys.argv[1], sys.argv[2]
    jobs = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    os.makedirs(out, exist_ok=True)
    variants = [parse(l) for l in open(path) if l.strip() and not l.startswith('#')]
    bad = 0
    with ProcessPoolExecutor(jobs) as pool, open(out + '/variants.txt', 'w') as f:
        for v, size, log, t in pool.map(compile_one, [(v, out) for v in variants]):
            spills = re.search(r'(\d+) bytes spill stores', log)
            regs = re.search(r'Used (\d+) registers', log)
            serial = 'serializ' in log
            ok = size and not serial and (not spills or spills.group(1) == '0')
            print('%-40s %s regs %s spill %s %.2fs smem %d' % (v['name'], 'ok ' if ok else 'BAD', regs and regs.group(1),
                  spills and spills.group(1), t, v['shared_bytes']), flush=True)
            if not ok:
                bad += 1
                print('\n'.join(l for l in log.splitlines() if l.strip())[:1200])
            if ok or size and os.environ.get('LAB_KEEP'):
                f.write(v['name'] + ' ' + ' '.join('%s=%s' % (k, int(v[k]) if isinstance(v[k], bool) else v[k]) for k in FIELDS) + '\n')
    print('%d variants, %d refused' % (len(variants), bad))
