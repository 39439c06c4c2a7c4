// Vega, Vega-Lite and Vega-Embed once per page: a widget without a view, which the charts ask for (host.getWidget).
import embed from "vega-embed";
import { changeset } from "vega";

export default {
  initialize() {
    return { embed, changeset };
  },
  render() {},
};
