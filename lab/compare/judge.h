/*
 * judge.h: what the history of a run shows is added to its cell: the checks that every lock service has to
 * pass.
 */
#ifndef LOCKER_LAB_COMPARE_JUDGE_H
#define LOCKER_LAB_COMPARE_JUDGE_H

#include "cell.h"

/** Read the history of the cell's run, check it, and put it into the result as a trace. To be called when its
 * workers have ended. */
void lk_judge(lk_cell *cell);

#endif
