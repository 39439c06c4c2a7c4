"""V-trace (IMPALA, Espeholt et al. 2018): an actor and a critic, corrected for the lag of the acting policy."""
