#!/usr/bin/env python3
"""Prints variant lists for compile.py: variants.py SET [layout ...]"""
import sys

# (name, block_m, block_n, wave_m, wave_groups, stages with 16-bit operands and output)
TILES = {
    'c128x256': (128, 256, 8, 1, 4), 'c256x128': (256, 128, 8, 1, 4), 'c256x192': (256, 192, 8, 1, 3),
    'c256x160': (256, 160, 8, 1, 3), 'c256x208': (256, 208, 8, 1, 3), 'c128x192': (128, 192, 8, 1, 4),
    'c128x128': (128, 128, 8, 1, 6), 'c128x64': (128, 64, 8, 1, 8), 'c192x128': (192, 128, 12, 1, 5),
    'c192x192': (192, 192, 12, 1, 3), 'c256x64': (256, 64, 8, 1, 5),
    'p128x128': (128, 128, 4, 2, 6), 'p64x256': (64, 256, 4, 2, 5), 'p128x192': (128, 192, 4, 2, 5),
    'p64x128': (64, 128, 4, 2, 8), 'p128x160': (128, 160, 4, 2, 5), 'p64x192': (64, 192, 4, 2, 6),
    'p64x64': (64, 64, 4, 2, 10), 'p128x64': (128, 64, 4, 2, 8), 'p128x96': (128, 96, 4, 2, 7), 'p64x160': (64, 160, 4, 2, 7),
    's64x64': (64, 64, 4, 1, 10), 's64x128': (64, 128, 4, 1, 8), 's64x32': (64, 32, 4, 1, 12), 's64x16': (64, 16, 4, 1, 16),
    's64x8': (64, 8, 4, 1, 16), 's128x16': (128, 16, 4, 1, 11), 's128x32': (128, 32, 4, 1, 10), 's128x64': (128, 64, 4, 1, 8),
    's64x256': (64, 256, 4, 1, 5), 's128x128': (128, 128, 4, 1, 6),
}
CLUSTERS = {'': (1, 1), '_21': (2, 1), '_12': (1, 2)}


def line(tile, cluster='', layout='rcr', **more):
    m, n, wm, wg, stages = TILES[tile]
    cm, cn = CLUSTERS[cluster]
    v = dict(block_m=m, block_n=n, wave_m=wm, wave_groups=wg, stages=stages, cluster_m=cm, cluster_n=cn, layout=layout)
    v.update(more)
    name = tile + cluster + '_' + layout + ''.join('_%s%s' % (k.replace('_', ''), x) for k, x in more.items())
    return name + ' ' + ' '.join('%s=%s' % kv for kv in v.items())


def main():
    out, which = [], sys.argv[1]
    layouts = sys.argv[2:] or ['rcr']
    if which == 'check':
        for lay in ['rcr', 'rrr', 'crr', 'ccr']:
            for t in ['c128x256', 'p128x128', 's64x64']:
                for c in CLUSTERS:
                    if t[0] == 's' and c: continue
                    out.append(line(t, c, lay))
            out.append(line('s64x32', '', lay, swap_ab=1))
            out.append(line('s128x16', '', lay, swap_ab=1, split_k=2))
            out.append(line('c128x128', '', lay, split_k=2))
            out.append(line('c128x128', '', lay, tma_c=0))
            out.append(line('p64x128', '', lay, tma_c=0, swap_ab=1))
        out += [line('c256x208'), line('c256x160'), line('c192x128'), line('s64x8', swap_ab=1), line('p128x192', '_21')]
        for ty in ['f16', 'f8e4m3', 'f8e5m2', 'i8']:
            o = 'i32' if ty == 'i8' else 'f16' if ty == 'f16' else 'bf16'
            bk = 64 if ty == 'f16' else 128
            for t, st in [('c128x256', 3), ('p128x128', 5), ('s64x64', 8)]:
                out.append(line(t, '', 'rcr', a_type=ty, c_type=o, block_k=bk, stages=st))
            out.append(line('s64x32', '', 'rcr', a_type=ty, c_type=o, block_k=bk, stages=8, swap_ab=1))
            out.append(line('c128x128', '', 'rcr', a_type=ty, c_type=o, block_k=bk, stages=4, split_k=2))
    for lay in layouts:
        if which == 'large':
            for t in ['c128x256', 'c256x128', 'c256x192', 'c256x160', 'c256x208', 'c128x192', 'p128x128', 'p64x256', 'p128x192', 'p128x160']:
                for c in CLUSTERS: out.append(line(t, c, lay))
        if which == 'all':
            for t in ['c128x256', 'c256x128', 'c256x192', 'c256x160', 'c128x192', 'c128x128', 'c192x128', 'c192x192',
                      'p128x128', 'p64x256', 'p128x192', 'p64x128', 'p128x160', 'p64x192', 'p128x96']:
                for c in CLUSTERS: out.append(line(t, c, lay))
            for t in ['p64x64', 'p128x64', 's64x64', 's64x128', 's64x32', 's64x16', 's64x256', 's128x128', 's128x64']: out.append(line(t, '', lay))
            for t in ['s64x8', 's64x16', 's64x32', 's64x64', 's128x16', 's128x32', 's128x64', 's64x128', 's128x128']:
                out.append(line(t, '', lay, swap_ab=1))
                out.append(line(t, '', lay, swap_ab=1, split_k=2))
            for t in ['p128x128', 'p64x128', 'c128x256', 'p128x192']: out.append(line(t, '', lay, swap_ab=1))
            for t in ['c128x256', 'c256x128', 'c128x128', 's64x64', 's64x128', 's128x128', 's64x256', 'c128x192']: out.append(line(t, '', lay, split_k=2))
            out.append(line('c128x256', '_21', lay, split_k=2))
    print('\n'.join(out))


main()
